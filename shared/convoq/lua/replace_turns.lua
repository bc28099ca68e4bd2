--!include fence
--!include claims
--!include keep
--!include sessions
-- Put other elements, or none, in the place of a memory's.
-- KEYS: memory, execution or claims (with a guard only). ARGV: guard ('' without one), ttl s, most bytes, elements
-- Returns 1 done, -1 not ours any more, -2 too large.
if refused(KEYS[2], ARGV[1]) then
    return -1
end
local size = 0
for i = 4, #ARGV do
    size = size + #ARGV[i]
end
if size > tonumber(ARGV[3]) then
    return -2
end
redis.call('DEL', KEYS[1])
for i = 4, #ARGV do
    redis.call('RPUSH', KEYS[1], ARGV[i])
end
written_by(ours(KEYS[2], ARGV[1]), KEYS[1], keep(KEYS[1], ARGV[2]))
return 1
