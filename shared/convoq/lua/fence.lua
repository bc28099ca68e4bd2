-- Whether an execution is not, or no longer, run by this attempt. Without an attempt there is no fence.
local function fenced(execution, attempt)
    if attempt == '' then
        return false
    end
    local status, current = unpack(redis.call('HMGET', execution, 'status', 'attempt'))
    return status ~= 'running' or current ~= attempt
end
