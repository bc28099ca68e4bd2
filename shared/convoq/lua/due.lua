--!include slots
-- The time to join a waiting message is over: let it through when the session's slot is free.
-- KEYS: execution, leases, allowed, rate-limited; ARGV: id, enqueued_at
if redis.call('HGET', KEYS[1], 'status') == 'queued' then
    redis.call('ZREM', KEYS[2], ARGV[1])
    promote(KEYS[3], KEYS[4], server_time(), ARGV[2])
end
return 1
