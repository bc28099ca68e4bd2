-- What is kept of a session, for a list. KEYS: its executions, its other keys, its thread
-- Returns {executions, exchanges in the thread, bytes, time-to-live of what is remembered in s (-1: nothing is)}
local MEMORIES = PREFIX .. 'mem:'
local bytes, ttl = 0, -1
local function count(key)
    local left = redis.call('TTL', key)
    if left >= 0 then
        bytes = bytes + (redis.call('MEMORY', 'USAGE', key, 'SAMPLES', 0) or 0)
        ttl = math.max(ttl, left)
    end
end
count(KEYS[3])
for _, key in ipairs(redis.call('ZRANGE', KEYS[2], 0, -1)) do
    if string.sub(key, 1, #MEMORIES) == MEMORIES then
        count(key)
    end
end
return { redis.call('ZCARD', KEYS[1]), redis.call('LLEN', KEYS[3]), bytes, ttl }
