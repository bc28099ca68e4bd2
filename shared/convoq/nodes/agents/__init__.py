"""Nodes in which a model works on its own: the AI Agent and its loop.

What they share with chains, asking a model and telling what came of it, is in `convoq.models`.
"""
