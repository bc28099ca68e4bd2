--!include fence
--!again
-- Note something about a running execution, for this claim only. KEYS: execution; ARGV: token, field, value
-- Returns 1 noted, 0 not ours any more.
if fenced(KEYS[1], ARGV[1]) then
    return 0
end
redis.call('HSET', KEYS[1], ARGV[2], ARGV[3])
return 1
