-- A worker's sign of life: it takes jobs, and it still runs what it runs.
-- KEYS: leases, workers; ARGV: lease s, execution key prefix, worker name ('' when it takes no jobs), then id and token of
-- each execution. Returns id and reason of those to be cancelled: '' where another claim holds it, else why it is stopped.
local time = redis.call('TIME')
local now = time[1] + time[2] / 1000000
local expiry = string.format('%.3f', now + ARGV[1])
if ARGV[3] ~= '' then
    redis.call('ZREMRANGEBYSCORE', KEYS[2], '-inf', now)
    redis.call('ZADD', KEYS[2], expiry, ARGV[3])
    redis.call('EXPIRE', KEYS[2], 60)
end
local cancelled = {}
for at = 4, #ARGV, 2 do
    local status, token, stop = unpack(redis.call('HMGET', ARGV[2] .. ARGV[at], 'status', 'token', 'stop'))
    local held = status == 'running' and token == ARGV[at + 1]
    if held then
        redis.call('ZADD', KEYS[1], expiry, ARGV[at])
    end
    if stop or not held then
        cancelled[#cancelled + 1] = ARGV[at]
        cancelled[#cancelled + 1] = held and stop or ''
    end
end
return cancelled
