-- A worker's sign of life: it takes jobs, and it still runs what it runs.
-- KEYS: leases, workers; ARGV: lease s, execution key prefix, worker name ('' when it takes no jobs), then id and attempt of
-- each execution. Returns the ids that another attempt holds now.
local time = redis.call('TIME')
local now = time[1] + time[2] / 1000000
local expiry = string.format('%.3f', now + ARGV[1])
if ARGV[3] ~= '' then
    redis.call('ZREMRANGEBYSCORE', KEYS[2], '-inf', now)
    redis.call('ZADD', KEYS[2], expiry, ARGV[3])
    redis.call('EXPIRE', KEYS[2], 60)
end
local lost = {}
for at = 4, #ARGV, 2 do
    local status, attempt = unpack(redis.call('HMGET', ARGV[2] .. ARGV[at], 'status', 'attempt'))
    if status == 'running' and attempt == ARGV[at + 1] then
        redis.call('ZADD', KEYS[1], expiry, ARGV[at])
    else
        lost[#lost + 1] = ARGV[at]
    end
end
return lost
