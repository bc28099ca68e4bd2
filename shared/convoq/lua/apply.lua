-- Commands that RQ's own code recorded, applied as one: each is its length followed by its words.
local function apply(first)
    local at = first
    while at <= #ARGV do
        local words = tonumber(ARGV[at])
        redis.call(unpack(ARGV, at + 1, at + words))
        at = at + words + 1
    end
end
