-- Executions that wait for somebody to see to them: their worker's lease has lapsed, a newer message displaced them, or
-- their time to be joined is over. KEYS: leases; ARGV: at most
local time = redis.call('TIME')
return redis.call('ZRANGEBYSCORE', KEYS[1], '-inf', time[1] + time[2] / 1000000, 'LIMIT', 0, ARGV[1])
