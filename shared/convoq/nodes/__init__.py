"""The node types that convoq brings, in folders by family; `registry` lists them.

A node's file holds its parameters' schema and its class. Nodes know the contract, the expressions, the models and the
memories, and never the engine that runs them.
"""
