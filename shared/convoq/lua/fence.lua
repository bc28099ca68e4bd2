-- Whether an execution is in this state and held by the claim with this token ('' is nobody). A worker draws a token for
-- each claim: attempts are counted again, should Redis lose one, and a number would let both of them write.
local function held(execution, status, token)
    local is, by = unpack(redis.call('HMGET', execution, 'status', 'token'))
    return is == status and (by or '') == token
end

-- Whether an execution is not, or no longer, run under this claim. Without a token there is no fence.
local function fenced(execution, token)
    return token ~= '' and not held(execution, 'running', token)
end
