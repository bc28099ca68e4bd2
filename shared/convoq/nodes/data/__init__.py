"""Nodes that change items: their fields, their order, their number.

They never change the items that they were given: those are others' outputs.
"""
