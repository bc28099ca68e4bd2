"""Nodes that decide which items go where, when, and whether at all.

Branches, merges, loops, waiting, failing on purpose, other workflows, and the answer to a webhook.
"""
