--!include fence
-- Append a turn to a memory, trim it and renew its time-to-live. A turn that is already there stays as it is: its first
-- element begins with the same role and turn id, whatever else it holds.
-- KEYS: memory, execution (with a fence only)
-- ARGV: attempt ('' without a fence), elements to keep, ttl s, length of that beginning, user element, assistant element
-- Returns 1 appended, 0 was there, -1 not ours any more.
if fenced(KEYS[2], ARGV[1]) then
    return -1
end
local head = string.sub(ARGV[5], 1, ARGV[4])
for _, element in ipairs(redis.call('LRANGE', KEYS[1], -math.min(ARGV[2], 100), -1)) do
    if string.sub(element, 1, #head) == head then
        return 0
    end
end
redis.call('RPUSH', KEYS[1], ARGV[5], ARGV[6])
redis.call('LTRIM', KEYS[1], -ARGV[2], -1)
redis.call('EXPIRE', KEYS[1], ARGV[3])
if ARGV[1] ~= '' then
    redis.call('HSET', KEYS[2], 'effects', 1) -- a turn that is remembered cannot be run again
end
return 1
