--!include slots
--!include sessions
-- Accept a message: its execution record, its RQ job, its place in the session's order. All or nothing, once per id.
-- KEYS: 1 execution, 2 job, 3 rate-limit config, 4 allowed, 5 rate-limited, 6 rate-limit keys, 7 queue, 8 queues,
--       9 waiting, 10 leases, 11 submission (the idempotency key's, or ''), 12 joined messages' suffix
-- ARGV: 1 id, 2 rate-limit key, 3 execution ttl s, 4 enqueued_at, 5 policy, 6 most waiting, 7 merge window s,
--       8 fingerprint, 9 item JSON, 10 session's ttl s, 11 n, then n fields and values of the execution, then the job's
-- Returns {what, id, position, ids…}: what is
--   admitted   position turns are ahead; ids are waiting executions that it displaced, then (interrupt) the running one
--   repeated   the same submission was accepted before, as id
--   conflict   the same idempotency key came with another message
--   joined     the message is part of execution id now (merge)
--   busy       execution id is in the way (reject)
--   full       too many messages wait
local id, key, policy = ARGV[1], ARGV[2], ARGV[5]
local execution, job, allowed, limited, waiting = KEYS[1], KEYS[2], KEYS[4], KEYS[5], KEYS[9]

local function position_of(one)
    local rank = redis.call('ZRANK', limited, one)
    return rank and rank + redis.call('ZCARD', allowed) or 0
end

if redis.call('EXISTS', execution) == 1 then
    return { 'admitted', id, position_of(id) }
end
if KEYS[11] ~= '' then
    local earlier = redis.call('HMGET', KEYS[11], 'id', 'fingerprint')
    if earlier[1] then
        return { earlier[2] == ARGV[8] and 'repeated' or 'conflict', earlier[1], 0 }
    end
end

-- Who is here already: one may run; the others wait, the one in the slot perhaps in the queue itself.
local now = server_time()
local running, ahead = nil, {}
for _, one in ipairs(redis.call('ZRANGE', allowed, 0, -1)) do
    if redis.call('HGET', EXECUTION_PREFIX .. one, 'status') == 'queued' then
        ahead[#ahead + 1] = one
    else
        running = one
    end
end
for _, one in ipairs(redis.call('ZRANGE', limited, 0, -1)) do
    ahead[#ahead + 1] = one
end

if policy == 'reject' and (running or ahead[1]) then
    return { 'busy', running or ahead[1], 0 }
end
-- Note that the message is part of that execution, for its idempotency key and for its session's index.
local function accepted(one)
    if KEYS[11] ~= '' then
        redis.call('HSET', KEYS[11], 'id', one, 'fingerprint', ARGV[8])
        redis.call('EXPIRE', KEYS[11], ARGV[3])
        belongs(key, KEYS[11], ARGV[3])
    end
    seen(key, one, now, ARGV[10])
end

if policy == 'merge' and ahead[1] then
    local host = ahead[#ahead]
    redis.call('RPUSH', EXECUTION_PREFIX .. host .. KEYS[12], ARGV[9])
    redis.call('EXPIRE', EXECUTION_PREFIX .. host .. KEYS[12], ARGV[3])
    accepted(host)
    return { 'joined', host, position_of(host) }
end
if redis.call('ZCARD', waiting) >= tonumber(ARGV[6]) then
    return { 'full', id, redis.call('ZCARD', waiting) }
end

local answer = { 'admitted', id, 0 }
if policy == 'latest' or policy == 'interrupt' then
    for _, one in ipairs(ahead) do
        -- Out of the order at once; whoever sees its lapsed lease first tells its client (convoq.takeover).
        redis.call('ZREM', limited, one)
        redis.call('ZREM', allowed, one)
        redis.call('LREM', KEYS[7], 1, one)
        redis.call('HSET', EXECUTION_PREFIX .. one, 'displaced_by', id)
        redis.call('ZADD', KEYS[10], 0, one)
        answer[#answer + 1] = one
    end
    if policy == 'interrupt' and running then
        redis.call('HSET', EXECUTION_PREFIX .. running, 'stop', 'interrupted by a newer message')
        answer[#answer + 1] = running
    end
end

local fields = tonumber(ARGV[11])
redis.call('HSET', execution, 'status', 'queued', 'attempt', 0, 'seq', 0, 'bytes', 0, unpack(ARGV, 12, 11 + fields))
redis.call('EXPIRE', execution, ARGV[3])
redis.call('HSET', job, unpack(ARGV, 12 + fields))
redis.call('EXPIRE', job, ARGV[3])
redis.call('SADD', KEYS[8], KEYS[7])
redis.call('SADD', KEYS[6], key)
redis.call('HSET', KEYS[3], 'concurrency', 1)
accepted(id)
if policy == 'merge' and tonumber(ARGV[7]) > 0 then
    local due = string.format('%.6f', now + tonumber(ARGV[7]))
    redis.call('HSET', execution, 'not_before', due)
    redis.call('ZADD', KEYS[10], due, id)
end
-- RQ scores by whole seconds and breaks ties by id; the server's microseconds keep the order of acceptance exactly.
local at = string.format('%.6f', now)
redis.call('ZADD', limited, at, id)
redis.call('ZADD', waiting, at, id)
redis.call('EXPIRE', waiting, ARGV[3])
promote(allowed, limited, now, ARGV[4])
answer[3] = position_of(id)
return answer
