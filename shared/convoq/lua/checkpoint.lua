-- Keep the run data so far, for this attempt only. KEYS: execution, run data; ARGV: attempt, run data, ttl s
local status, attempt = unpack(redis.call('HMGET', KEYS[1], 'status', 'attempt'))
if status ~= 'running' or attempt ~= ARGV[1] then
    return 0
end
redis.call('SET', KEYS[2], ARGV[2], 'EX', ARGV[3])
return 1
