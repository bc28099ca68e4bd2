"""What is kept in Redis beside messages under way: workflows, sessions, files, credentials.

Everything but definitions and credentials has a time-to-live.
"""
