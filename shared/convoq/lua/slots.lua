-- RQ's rate limiter, as in rq/rate_limit.py (ACQUIRE_AND_ENQUEUE_SCRIPT): let the longest waiting job of the session
-- through while its one slot is free, so the turns of a session run one after the other. One thing is added: a message
-- that others may still join (`not_before`) is not let through before its time.
local QUEUE_PREFIX, JOB_PREFIX, EXECUTION_PREFIX = RQ_PREFIX .. 'queue:', RQ_PREFIX .. 'job:', PREFIX .. 'exec:'

local function server_time()
    local time = redis.call('TIME')
    return tonumber(time[1]) + tonumber(time[2]) / 1000000
end

local function promote(allowed, limited, now, enqueued_at)
    while redis.call('ZCARD', allowed) < 1 do
        local id = redis.call('ZRANGE', limited, 0, 0)[1]
        if not id or tonumber(redis.call('HGET', EXECUTION_PREFIX .. id, 'not_before') or 0) > now then
            return
        end
        redis.call('ZREM', limited, id)
        local fields = redis.call('HMGET', JOB_PREFIX .. id, 'origin', 'status')
        if fields[1] and fields[2] == 'rate_limited' then
            redis.call('ZADD', allowed, string.format('%.6f', now), id)
            redis.call('RPUSH', QUEUE_PREFIX .. fields[1], id)
            redis.call('HSET', JOB_PREFIX .. id, 'status', 'queued', 'enqueued_at', enqueued_at)
        end
    end
end

-- Free the job's slot, let the next one through, and forget a session that nobody waits in.
local function release(id, allowed, limited, config, all_keys, key, enqueued_at)
    redis.call('ZREM', limited, id)
    redis.call('ZREM', allowed, id)
    promote(allowed, limited, server_time(), enqueued_at)
    if redis.call('ZCARD', allowed) == 0 and redis.call('ZCARD', limited) == 0 then
        redis.call('SREM', all_keys, key)
        redis.call('DEL', allowed, limited, config)
    end
end
