--!include fence
--!include claims
--!include keep
--!include sessions
-- Append a turn to a memory, trim it and renew its time-to-live. A turn that is already there stays as it is: its first
-- element begins with the same role and turn id, whatever else it holds.
-- KEYS: memory, execution or claims (with a guard only)
-- ARGV: guard ('' without one), ttl s, elements to keep, most bytes, length of that beginning, user element,
-- assistant element. Returns 1 appended, 0 was there, -1 not ours any more, -2 too large.
if refused(KEYS[2], ARGV[1]) then
    return -1
end
local head = string.sub(ARGV[6], 1, ARGV[5])
for _, element in ipairs(redis.call('LRANGE', KEYS[1], -math.min(ARGV[3], 100), -1)) do
    if string.sub(element, 1, #head) == head then
        return 0
    end
end
if overflows(KEYS[1], #ARGV[6] + #ARGV[7], ARGV[4]) then
    return -2
end
redis.call('RPUSH', KEYS[1], ARGV[6], ARGV[7])
redis.call('LTRIM', KEYS[1], -ARGV[3], -1)
written_by(ours(KEYS[2], ARGV[1]), KEYS[1], keep(KEYS[1], ARGV[2]))
remembered(KEYS[2], ARGV[1])
return 1
