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
    local list, executions = 'convoq:sessions:' .. workflow, 'convoq:session:' .. slot
    redis.call('ZADD', list, now, session)
    redis.call('ZREMRANGEBYSCORE', list, '-inf', now - ttl)
    longer(list, ttl)
    redis.call('ZADD', executions, now, id)
    redis.call('ZREMRANGEBYSCORE', executions, '-inf', now - ttl)
    longer(executions, ttl)
end

-- A key that holds something of the session.
local function belongs(slot, key, ttl)
    redis.call('SADD', 'convoq:session:' .. slot .. ':keys', key)
    longer('convoq:session:' .. slot .. ':keys', ttl)
end
