--!include apply
-- RQ's heartbeat commands, as one call.
apply(1)
return 1
