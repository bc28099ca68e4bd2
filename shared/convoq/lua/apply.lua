-- Commands that RQ's own code recorded, applied as one: each is its length followed by its words. They are ARGV from
-- `first` to `last`, or to its end.
local function apply(first, last)
    local at = first
    while at <= (last or #ARGV) do
        local words = tonumber(ARGV[at])
        redis.call(unpack(ARGV, at + 1, at + words))
        at = at + words + 1
    end
end
