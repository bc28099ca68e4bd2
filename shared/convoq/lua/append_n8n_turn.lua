--!include fence
--!include claims
--!include keep
--!include sessions
-- Put the messages of a turn at the head of a list as n8n does, all or none. n8n itself never trims.
-- KEYS: memory, execution or claims (with a guard only)
-- ARGV: guard ('' without one), ttl s, most bytes, what only this turn's first message holds, messages
-- Returns 1 appended, 0 was there, -1 not ours any more, -2 too large.
if refused(KEYS[2], ARGV[1]) then
    return -1
end
for _, message in ipairs(redis.call('LRANGE', KEYS[1], 0, 199)) do
    if string.find(message, ARGV[4], 1, true) and string.find(message, '^{"type":"human"') then
        return 0
    end
end
local size = 0
for i = 5, #ARGV do
    size = size + #ARGV[i]
end
if overflows(KEYS[1], size, ARGV[3]) then
    return -2
end
for i = 5, #ARGV do
    redis.call('LPUSH', KEYS[1], ARGV[i])
end
written_by(ours(KEYS[2], ARGV[1]), KEYS[1], keep(KEYS[1], ARGV[2]))
remembered(KEYS[2], ARGV[1])
return 1
