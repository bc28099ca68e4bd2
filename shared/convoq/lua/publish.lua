--!include emit
-- What several streams have to say. KEYS: execution (also the channel's name) and log of each
-- ARGV: log ttl s, most bytes, most chunks, then token, first seq, count, payload, payload size of each
-- Returns for each what `emit` does.
local ttl, max_bytes, max_chunks = ARGV[1], ARGV[2], ARGV[3]
local done = {}
for at = 1, #KEYS / 2 do
    local a = 5 * at - 1
    done[at] = 1
    if ARGV[a + 2] ~= '0' then
        done[at] = emit(KEYS[2 * at - 1], KEYS[2 * at], 'running', ARGV[a], ARGV[a + 1], ARGV[a + 2], ARGV[a + 3],
            ARGV[a + 4], ttl, max_bytes, max_chunks)
    end
end
return done
