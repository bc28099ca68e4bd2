"""Runs a workflow: the definition (`Workflow`), one run of it (`WorkflowRun`), and what became of that (`Outcome`).

Knows the node contract and the expressions, and none of the nodes: the registry is given to it.
"""
