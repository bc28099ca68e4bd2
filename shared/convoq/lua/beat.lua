--!include apply
--!include fence
-- RQ's heartbeat: the commands of the worker itself, and of each execution that it still holds. One that was taken over
-- would be entered into RQ's registries again, for good.
-- KEYS: executions; ARGV: number of words of the worker's commands, those, then for each execution its token, the
-- number of words of its commands, those
local at = 2 + ARGV[1]
apply(2, at - 1)
for _, execution in ipairs(KEYS) do
    local last = at + 1 + ARGV[at + 1]
    if not fenced(execution, ARGV[at]) then
        apply(at + 2, last)
    end
    at = last + 1
end
return 1
