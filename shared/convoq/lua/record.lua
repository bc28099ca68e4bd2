--!include apply
-- KEYS: execution; ARGV: attempt, RQ's commands. They are left out when another attempt has taken over.
if redis.call('HGET', KEYS[1], 'attempt') == ARGV[1] and redis.call('HGET', KEYS[1], 'status') == 'running' then
    apply(2)
    return 1
end
return 0
