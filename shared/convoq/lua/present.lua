-- A process says that it is there, and for how long. KEYS: processes; ARGV: the process, s ('' when it ends)
-- Returns all that are there.
local now = redis.call('TIME')[1]
redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', '(' .. now)
if ARGV[2] == '' then
    redis.call('ZREM', KEYS[1], ARGV[1])
else
    redis.call('ZADD', KEYS[1], now + ARGV[2], ARGV[1])
    redis.call('EXPIRE', KEYS[1], ARGV[2])
end
return redis.call('ZRANGE', KEYS[1], 0, -1)
