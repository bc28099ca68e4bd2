--!include fence
-- A worker gives up what it holds: the lease is over at once. KEYS: execution, leases; ARGV: token, id
if not fenced(KEYS[1], ARGV[1]) then
    redis.call('ZADD', KEYS[2], 0, ARGV[2])
end
return 1
