--!include emit
-- KEYS: execution (also the channel's name), log
-- ARGV: attempt, first seq, count, payload, payload size, log ttl s, most bytes, most chunks
return emit(KEYS[1], KEYS[2], 'running', ARGV[1], ARGV[2], ARGV[3], ARGV[4], ARGV[5], ARGV[6], ARGV[7], ARGV[8])
