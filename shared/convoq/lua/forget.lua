-- Remove all that is kept of a session, or, while executions of it have not ended, nothing.
-- KEYS: 1 the workflow's sessions, 2 the session's executions, 3 its other keys, 4 its thread, 5 leases, 6 waiting
-- ARGV: the session as it is listed
-- Returns the ids of executions that have not ended, or else the number of keys removed.
local executions = redis.call('ZRANGE', KEYS[2], 0, -1)
local alive = {}
for _, id in ipairs(executions) do
    local status = redis.call('HGET', PREFIX .. 'exec:' .. id, 'status')
    if status == 'queued' or status == 'running' then
        alive[#alive + 1] = id
    end
end
if #alive > 0 then
    return alive
end

local removed = 0
local function remove(...)
    removed = removed + redis.call('DEL', ...)
end

for _, id in ipairs(executions) do
    local execution, job = PREFIX .. 'exec:' .. id, RQ_PREFIX .. 'job:' .. id
    local queue = redis.call('HGET', execution, 'queue') or redis.call('HGET', job, 'origin')
    if queue then
        for _, registry in ipairs({ 'failed', 'finished', 'canceled', 'deferred', 'scheduled' }) do
            redis.call('ZREM', RQ_PREFIX .. registry .. ':' .. queue, id)
        end
        redis.call('LREM', RQ_PREFIX .. 'queue:' .. queue, 0, id)
    end
    redis.call('ZREM', KEYS[5], id)
    redis.call('ZREM', KEYS[6], id)
    remove(execution, execution .. ':log', execution .. ':data', execution .. ':more', execution .. ':files')
    remove(job, job .. ':dependents', job .. ':dependencies', RQ_PREFIX .. 'results:' .. id,
        RQ_PREFIX .. 'executions:' .. id)
end
for _, key in ipairs(redis.call('ZRANGE', KEYS[3], 0, -1)) do
    remove(key)
end
remove(KEYS[2], KEYS[3], KEYS[4])
return removed + redis.call('ZREM', KEYS[1], ARGV[1])
