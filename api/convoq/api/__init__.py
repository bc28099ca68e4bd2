"""The front door: an ASGI app that admits chat messages and relays what workers say.

The way of a message: `chat` -> `body` -> `triggers` -> admission -> `relay` -> `reply`.
"""
