-- Take a dequeued job for one worker: bump the attempt, start the lease, hand out the job's hash.
-- KEYS: execution, job, intermediate queue, leases, waiting, joined messages
-- ARGV: id, claim token, worker name, lease s, now ms (the worker's clock, for people)
-- Returns {attempt, job hash, joined messages}, or the status that forbids it ('' if there is no such execution).
local time = redis.call('TIME')
local status, token = unpack(redis.call('HMGET', KEYS[1], 'status', 'token'))
local mine = status == 'running' and token == ARGV[2]
if not mine then
    local held = redis.call('LREM', KEYS[3], 1, ARGV[1])
    if status ~= 'queued' or held == 0 or redis.call('EXISTS', KEYS[2]) == 0 then
        return status or ''
    end
    if redis.call('HGET', KEYS[1], 'displaced_by') then
        return 'displaced'
    end
    redis.call('HINCRBY', KEYS[1], 'attempt', 1)
    redis.call('HSET', KEYS[1], 'status', 'running', 'token', ARGV[2], 'worker', ARGV[3], 'started', ARGV[5])
    redis.call('ZADD', KEYS[4], string.format('%.3f', time[1] + time[2] / 1000000 + ARGV[4]), ARGV[1])
    redis.call('ZREM', KEYS[5], ARGV[1])
end
local attempt = tonumber(redis.call('HGET', KEYS[1], 'attempt'))
return { attempt, redis.call('HGETALL', KEYS[2]), redis.call('LRANGE', KEYS[6], 0, -1) }
