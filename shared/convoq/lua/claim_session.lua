-- Leave a claim on a session of a server that is not convoq's own (see memory/claims.py).
-- KEYS: claims; ARGV: claim, ttl s. Returns all that are there.
redis.call('SADD', KEYS[1], ARGV[1])
redis.call('EXPIRE', KEYS[1], ARGV[2])
return redis.call('SMEMBERS', KEYS[1])
