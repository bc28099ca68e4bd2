"""HTTP requests: the node, and what its tool shares with it.

A `Request` is described (`build`), given what a credential says (`auth`, `predefined`), sent (`send`), read (`answer`).
"""
