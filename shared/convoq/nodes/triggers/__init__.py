"""What starts an execution.

A chat message, or a call by another workflow: nothing else starts one here.
"""
