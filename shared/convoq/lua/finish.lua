--!include slots
--!include fence
--!include emit
--!include apply
--!include sessions
-- End an execution: last chunks, record, run data, RQ's registries, the session's slot. All or nothing, and only for who
-- may: the claim that holds it (`running`), anybody once its lease has lapsed (`lapsed`) or before a worker took it
-- (`queued`). Returns 1 done, 0 not so (any more), -2 the log is not at `first seq`.
-- KEYS: 1 execution, 2 log, 3 leases, 4 run data, 5 rate-limit config, 6 allowed, 7 rate-limited, 8 rate-limit keys,
--       9 waiting, 10 joined messages, 11 the chat's thread
-- ARGV: 1 id, 2 token (or ''), 3 first seq, 4 count, 5 payload, 6 size, 7 log ttl s, 8 status, 9 error JSON, 10 now ms,
--       11 run data, 12 run data ttl s, 13 rate-limit key, 14 enqueued_at, 15 who may, 16 partial answer,
--       17 exchange for the thread (or ''), 18 exchanges kept, 19 thread's ttl s, 20 session's ttl s, RQ's commands
local THREAD_MAX_BYTES = 8 * 1024 * 1024
local id, who = ARGV[1], ARGV[15]
if who == 'lapsed' and tonumber(redis.call('ZSCORE', KEYS[3], id) or 'inf') > server_time() then
    return 0
end
local expected = who == 'queued' and 'queued' or 'running'
local done = emit(KEYS[1], KEYS[2], expected, ARGV[2], ARGV[3], ARGV[4], ARGV[5], ARGV[6], ARGV[7])
if done == 0 then
    return held(KEYS[1], ARGV[8], ARGV[2]) and 1 or 0
elseif done ~= 1 then
    return done
end
redis.call('HSET', KEYS[1], 'status', ARGV[8], 'error', ARGV[9], 'ended', ARGV[10])
if ARGV[16] ~= '' then
    redis.call('HSET', KEYS[1], 'partial', ARGV[16])
end
redis.call('ZREM', KEYS[3], id)
redis.call('ZREM', KEYS[9], id)
if ARGV[8] == 'success' then
    redis.call('DEL', KEYS[10]) -- else it may be run again, with what had joined it
end
if ARGV[11] ~= '' then
    redis.call('SET', KEYS[4], ARGV[11], 'EX', ARGV[12])
end
if ARGV[17] ~= '' then
    redis.call('RPUSH', KEYS[11], ARGV[17])
    redis.call('LTRIM', KEYS[11], -ARGV[18], -1)
    while redis.call('MEMORY', 'USAGE', KEYS[11], 'SAMPLES', 0) > THREAD_MAX_BYTES do
        redis.call('LPOP', KEYS[11])
    end
    redis.call('EXPIRE', KEYS[11], ARGV[19])
end
seen(ARGV[13], id, server_time(), ARGV[20])
apply(21)
release(id, KEYS[6], KEYS[7], KEYS[5], KEYS[8], ARGV[13], ARGV[14])
return 1
