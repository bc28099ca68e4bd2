-- Where everything of a session can be found again. `slot` is the workflow's and the session's quoted id with a colon
-- between, `ttl` how long the last of what belongs to it may stay (s).
local function longer(key, ttl)
    if redis.call('TTL', key) < tonumber(ttl) then
        redis.call('EXPIRE', key, ttl)
    end
end

-- A session is heard of: list it, and its execution, and forget those that nothing can be left of.
local function seen(slot, id, now, ttl)
    local workflow, session = string.match(slot, '^([^:]*):(.*)$')
    if not session then
        return
    end
    local list, executions = PREFIX .. 'sessions:' .. workflow, PREFIX .. 'session:' .. slot
    redis.call('ZADD', list, now, session)
    redis.call('ZREMRANGEBYSCORE', list, '-inf', now - ttl)
    longer(list, ttl)
    redis.call('ZADD', executions, now, id)
    redis.call('ZREMRANGEBYSCORE', executions, '-inf', now - ttl)
    longer(executions, ttl)
end

-- A key with this time-to-live holds something of the session.
local function belongs(slot, key, ttl)
    local now = tonumber(redis.call('TIME')[1])
    local others = PREFIX .. 'session:' .. slot .. ':keys'
    redis.call('ZADD', others, now + ttl, key)
    redis.call('ZREMRANGEBYSCORE', others, '-inf', now - 1)
    longer(others, ttl)
end

-- What an execution writes to belongs to its session.
local function written_by(execution, key, ttl)
    local slot = execution and redis.call('HGET', execution, 'slot')
    if slot then
        belongs(slot, key, ttl)
    end
end
