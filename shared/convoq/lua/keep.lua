-- Whether a list would be larger than `most` bytes with `more` added. Exact, and cheap: Redis packs lists into nodes of
-- 8 KB and knows each one's size.
local function overflows(list, more, most)
    return (redis.call('MEMORY', 'USAGE', list, 'SAMPLES', 0) or 0) + more > tonumber(most)
end

-- A time-to-live of 0 s is none. Returns how long the list may stay: ten years stand for ever.
local function keep(list, ttl_s)
    if tonumber(ttl_s) > 0 then
        redis.call('EXPIRE', list, ttl_s)
        return ttl_s
    end
    redis.call('PERSIST', list)
    return 315360000
end
