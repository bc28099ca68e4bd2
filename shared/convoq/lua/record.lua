--!include apply
--!include fence
-- RQ's notes of a started job. KEYS: execution; ARGV: token, RQ's execution id, RQ's commands.
if not fenced(KEYS[1], ARGV[1]) then
    redis.call('HSET', KEYS[1], 'rq', ARGV[2])
    apply(3)
    return 1
end
return 0
