"""Nodes that ask a model a fixed question about each item: no tools, no loop.

They ask through `convoq.models.asking`, as the agents do.
"""
