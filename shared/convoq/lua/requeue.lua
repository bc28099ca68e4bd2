--!include slots
--!include apply
-- Give an execution whose lease has lapsed to another worker: nothing of it was seen yet, nothing was done that counts.
-- KEYS: execution, leases, waiting, queue; ARGV: id, token, readers' note, RQ's commands. Returns 1 done, 0 not so.
if tonumber(redis.call('ZSCORE', KEYS[2], ARGV[1]) or 'inf') > server_time() then
    return 0
end
local status, token, seq, effects = unpack(redis.call('HMGET', KEYS[1], 'status', 'token', 'seq', 'effects'))
if status ~= 'running' or token ~= ARGV[2] or seq ~= '0' or effects then
    return 0
end
redis.call('HSET', KEYS[1], 'status', 'queued')
redis.call('HDEL', KEYS[1], 'token', 'worker', 'rq')
redis.call('ZREM', KEYS[2], ARGV[1])
redis.call('ZADD', KEYS[3], server_time(), ARGV[1])
apply(4)
redis.call('LPUSH', KEYS[4], ARGV[1])
redis.call('PUBLISH', KEYS[1], ARGV[3])
return 1
