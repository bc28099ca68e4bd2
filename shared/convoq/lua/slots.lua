-- RQ's rate limiter, as in rq/rate_limit.py (ACQUIRE_AND_ENQUEUE_SCRIPT): let the longest waiting job of the session
-- through while a slot is free. A session has one slot, so its turns run one after the other.
local function promote(allowed, limited, now, enqueued_at, queue_prefix, job_prefix)
    while redis.call('ZCARD', allowed) < 1 do
        local popped = redis.call('ZPOPMIN', limited)
        if #popped == 0 then
            return
        end
        local job = job_prefix .. popped[1]
        local fields = redis.call('HMGET', job, 'origin', 'status')
        if fields[1] and fields[2] == 'rate_limited' then
            redis.call('ZADD', allowed, now, popped[1])
            redis.call('RPUSH', queue_prefix .. fields[1], popped[1])
            redis.call('HSET', job, 'status', 'queued', 'enqueued_at', enqueued_at)
        end
    end
end

-- Free the job's slot, let the next one through, and forget a session that nobody waits in.
local function release(id, allowed, limited, config, all_keys, key, now, enqueued_at, queue_prefix, job_prefix)
    redis.call('ZREM', limited, id)
    redis.call('ZREM', allowed, id)
    promote(allowed, limited, now, enqueued_at, queue_prefix, job_prefix)
    if redis.call('ZCARD', allowed) == 0 and redis.call('ZCARD', limited) == 0 then
        redis.call('SREM', all_keys, key)
        redis.call('DEL', allowed, limited, config)
    end
end

local function server_time()
    local time = redis.call('TIME')
    return tonumber(time[1]) + tonumber(time[2]) / 1000000
end
