"""Sub-nodes that make a value of a model's words: what the model is told, and how its answer is read.

A value is read from JSON wherever it stands in the answer, and held against its schema.
"""
