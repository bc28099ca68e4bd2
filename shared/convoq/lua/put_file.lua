-- Keep a file of an execution, within what all its files may hold together.
-- KEYS: 1 the execution's files   ARGV: 1 name, 2 bytes, 3 most bytes of all, 4 ttl s
-- Returns 1, or 0 where there is no room. Sent again, it changes nothing.
if redis.call('HEXISTS', KEYS[1], ARGV[1]) == 0 then
    local held = tonumber(redis.call('HGET', KEYS[1], 'bytes') or '0') + #ARGV[2]
    if held > tonumber(ARGV[3]) then
        return 0
    end
    redis.call('HSET', KEYS[1], ARGV[1], ARGV[2], 'bytes', held)
end
redis.call('EXPIRE', KEYS[1], ARGV[4])
return 1
