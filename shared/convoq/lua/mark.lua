-- Note something about a running execution, for this attempt only. KEYS: execution; ARGV: attempt, field, value
-- Returns 1 noted, 0 not ours any more.
local status, attempt = unpack(redis.call('HMGET', KEYS[1], 'status', 'attempt'))
if status ~= 'running' or attempt ~= ARGV[1] then
    return 0
end
redis.call('HSET', KEYS[1], ARGV[2], ARGV[3])
return 1
