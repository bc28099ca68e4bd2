-- Ask for the stop of a running execution. KEYS: execution, the worker's command channel; ARGV: reason, RQ's command
if redis.call('HGET', KEYS[1], 'status') == 'running' then
    redis.call('HSETNX', KEYS[1], 'stop', ARGV[1])
    redis.call('PUBLISH', KEYS[2], ARGV[2])
    return 1
end
return 0
