-- Append one batch of chunks to an execution's log and wake its readers, if this claim still holds the execution.
-- Sending a batch twice is harmless. Returns 1 done, 0 not ours any more, -1 too large, -2 the log lost its end.
-- An entry's id is the number of the chunk after it, so a reader finds its place with one XRANGE; the last entry may hold
-- no chunk at all and takes the id after that.
local function emit(execution, log, expected, token, first, count, payload, size, ttl, max_bytes, max_chunks)
    local last = not max_bytes
    local status, current, seq, bytes = unpack(redis.call('HMGET', execution, 'status', 'token', 'seq', 'bytes'))
    if status ~= expected or (current or '') ~= token then
        return 0
    end
    seq, first, count = tonumber(seq), tonumber(first), tonumber(count)
    if not last and seq >= first + count then
        return 1
    end
    if seq > first or (seq < first and not last) then
        return -2
    end
    bytes = bytes + size
    if not last and (bytes > tonumber(max_bytes) or first + count > tonumber(max_chunks)) then
        return -1
    end
    redis.call('HSET', execution, 'seq', first + count, 'bytes', bytes)
    redis.call('XADD', log, (first + count) .. (last and '-1' or '-0'), 'd', payload)
    redis.call('EXPIRE', log, ttl)
    redis.call('PUBLISH', execution, payload)
    return 1
end
