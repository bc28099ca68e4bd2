"""The node contract: what a node is, what it is given, what goes over its connections.

Ground room: it knows settings, errors and the wire, and nothing of who runs nodes or of the nodes there are. Everything
above builds on it: expressions, models, memories, the engine, the nodes.
"""
