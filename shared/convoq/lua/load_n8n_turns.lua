-- The last turns of a list that n8n writes: the newest message first, each turn begun by a message of type `human`.
-- KEYS: memory; ARGV: turns, most bytes. Returns the messages, the newest first, or -2 where they are larger than that.
local found, turns, size, from = {}, 0, 0, 0
while true do
    local some = redis.call('LRANGE', KEYS[1], from, from + 99)
    for _, message in ipairs(some) do
        size = size + #message
        if size > tonumber(ARGV[2]) then
            return -2
        end
        found[#found + 1] = message
        if string.find(message, '^%s*{%s*"type"%s*:%s*"human"') then
            turns = turns + 1
            if turns == tonumber(ARGV[1]) then
                return found
            end
        end
    end
    if #some < 100 then
        return found
    end
    from = from + 100
end
