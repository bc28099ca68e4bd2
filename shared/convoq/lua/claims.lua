-- Whether a write may not be done. `guard` is a token, under which the execution with this key must run; or a claim (it
-- has colons), which must stand in the set of this key and is used up; or nothing, and anybody may.
local function refused(key, guard)
    if string.find(guard, ':', 1, true) then
        return redis.call('SREM', key, guard) == 0
    end
    return fenced(key, guard)
end

-- The execution's key, where there is an execution here.
local function ours(key, guard)
    return guard ~= '' and not string.find(guard, ':', 1, true) and key
end

-- A turn that is remembered cannot be run again.
local function remembered(key, guard)
    if ours(key, guard) then
        redis.call('HSET', key, 'effects', 1)
    end
end
