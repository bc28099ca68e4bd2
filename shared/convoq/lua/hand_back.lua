-- Put a job that was taken but not claimed back to the head of its queue. KEYS: intermediate queue, queue, execution; ARGV: id
if redis.call('LREM', KEYS[1], 1, ARGV[1]) == 1 and redis.call('HGET', KEYS[3], 'status') == 'queued' then
    redis.call('LPUSH', KEYS[2], ARGV[1])
    return 1
end
return 0
