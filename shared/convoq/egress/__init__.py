"""What nodes may connect to: the rules, and the one HTTP session that keeps them.

Every node that opens a connection to a place that a workflow names does it over `Egress`. Models and memories do not:
whoever operates convoq configures those, a private address is the usual thing for them.
"""
