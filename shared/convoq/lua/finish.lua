--!include slots
--!include emit
--!include apply
-- End an execution: last chunks, record, run data, RQ's registries, the session's slot. All or nothing, and only for the
-- attempt that holds it. Returns 1 done, 0 not ours any more.
-- KEYS: execution, log, leases, run data, rate-limit config, allowed, rate-limited, rate-limit keys
-- ARGV: 1 id, 2 attempt, 3 first seq, 4 count, 5 payload, 6 size, 7 log ttl s, 8 status, 9 error JSON, 10 now ms,
--       11 run data, 12 run data ttl s, 13 rate-limit key, 14 enqueued_at, 15 queue prefix, 16 job prefix, RQ's commands
if emit(KEYS[1], KEYS[2], ARGV[2], ARGV[3], ARGV[4], ARGV[5], ARGV[6], ARGV[7], nil, true) ~= 1 then
    local status, attempt = unpack(redis.call('HMGET', KEYS[1], 'status', 'attempt'))
    return (status == ARGV[8] and attempt == ARGV[2]) and 1 or 0
end
redis.call('HSET', KEYS[1], 'status', ARGV[8], 'error', ARGV[9], 'ended', ARGV[10])
redis.call('ZREM', KEYS[3], ARGV[1])
if ARGV[11] ~= '' then
    redis.call('SET', KEYS[4], ARGV[11], 'EX', ARGV[12])
end
apply(17)
release(ARGV[1], KEYS[6], KEYS[7], KEYS[5], KEYS[8], ARGV[13], server_time(), ARGV[14], ARGV[15], ARGV[16])
return 1
