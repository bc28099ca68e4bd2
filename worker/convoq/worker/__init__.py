"""The worker: RQ's book-keeping around one event loop that runs many executions at once.

`worker` takes and claims jobs, `job` runs one, `runtime` is what all of them share.
"""
