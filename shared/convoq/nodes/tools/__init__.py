"""Sub-nodes that supply tools, and what makes a tool of any node.

A tool's failure is told to the model; only what `onError` demands stops the run.
"""
