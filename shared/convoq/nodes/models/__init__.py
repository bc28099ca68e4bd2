"""Sub-nodes that supply chat models.

Parameters in, a model of `convoq.models` out.
"""
