--!include slots
-- Accept a message: its execution record, its RQ job, its place in the session's order. All or nothing, once per id.
-- KEYS: execution, job, rate-limit config, allowed, rate-limited, rate-limit keys, queue, queues
-- ARGV: id, rate-limit key, execution ttl s, enqueued_at, queue prefix, job prefix, n, n execution fields and values, job's
-- Returns how many turns of the session are ahead of it.
local id, key = ARGV[1], ARGV[2]
local fields = tonumber(ARGV[7])
if redis.call('EXISTS', KEYS[1]) == 0 then
    local now = string.format('%.6f', server_time())
    redis.call('HSET', KEYS[1], 'status', 'queued', 'attempt', 0, 'seq', 0, 'bytes', 0, unpack(ARGV, 8, 7 + fields))
    redis.call('EXPIRE', KEYS[1], ARGV[3])
    redis.call('HSET', KEYS[2], unpack(ARGV, 8 + fields))
    redis.call('EXPIRE', KEYS[2], ARGV[3])
    redis.call('SADD', KEYS[8], KEYS[7])
    redis.call('SADD', KEYS[6], key)
    redis.call('HSET', KEYS[3], 'concurrency', 1)
    -- RQ scores by whole seconds and breaks ties by id; the server's microseconds keep the order of acceptance exactly.
    redis.call('ZADD', KEYS[5], now, id)
    promote(KEYS[4], KEYS[5], now, ARGV[4], ARGV[5], ARGV[6])
end
local rank = redis.call('ZRANK', KEYS[5], id)
if rank then
    return rank + redis.call('ZCARD', KEYS[4])
end
return 0
