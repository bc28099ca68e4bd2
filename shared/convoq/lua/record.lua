--!include apply
-- RQ's notes of a started job. KEYS: execution; ARGV: attempt, RQ's execution id, RQ's commands.
local status, attempt = unpack(redis.call('HMGET', KEYS[1], 'status', 'attempt'))
if status == 'running' and attempt == ARGV[1] then
    redis.call('HSET', KEYS[1], 'rq', ARGV[2])
    apply(3)
    return 1
end
return 0
