--!include fence
-- Put other turns, or none, in the place of a memory's.
-- KEYS: memory, execution (with a fence only). ARGV: attempt ('' without a fence), elements to keep, ttl s, elements
-- Returns 1 done, -1 not ours any more.
if fenced(KEYS[2], ARGV[1]) then
    return -1
end
redis.call('DEL', KEYS[1])
for i = math.max(4, #ARGV - ARGV[2] + 1), #ARGV do
    redis.call('RPUSH', KEYS[1], ARGV[i])
end
redis.call('EXPIRE', KEYS[1], ARGV[3])
return 1
