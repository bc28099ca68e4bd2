--!include fence
--!include keep
--!include sessions
-- Put a summary in the place of a memory's first turns, if they are still those that it sums up and the lock is held.
-- Without a summary only the lock is given back.
-- KEYS: memory, execution, lock; ARGV: token, ttl s, the lock's, user element, assistant element ('' both: none), ids…
-- Returns 1 done, 0 not so any more, -1 not ours any more.
if redis.call('GET', KEYS[3]) ~= ARGV[3] then
    return 0
end
redis.call('DEL', KEYS[3])
if fenced(KEYS[2], ARGV[1]) then
    return -1
end
local turns = #ARGV - 5
if ARGV[4] == '' or turns == 0 then
    return 0
end
local elements = redis.call('LRANGE', KEYS[1], 0, 2 * turns - 1)
if #elements < 2 * turns then
    return 0
end
for i, element in ipairs(elements) do
    local ok, decoded = pcall(cjson.decode, element)
    if not ok or decoded.turn ~= ARGV[5 + math.ceil(i / 2)] then
        return 0
    end
end
redis.call('LTRIM', KEYS[1], 2 * turns, -1)
redis.call('LPUSH', KEYS[1], ARGV[5], ARGV[4])
keep(KEYS[1], ARGV[2])
written_by(KEYS[2], KEYS[1], ARGV[2])
return 1
