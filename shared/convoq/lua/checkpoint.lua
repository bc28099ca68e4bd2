--!include fence
-- Keep the run data so far, for this claim only. KEYS: execution, run data; ARGV: token, run data, ttl s
if fenced(KEYS[1], ARGV[1]) then
    return 0
end
redis.call('SET', KEYS[2], ARGV[2], 'EX', ARGV[3])
return 1
