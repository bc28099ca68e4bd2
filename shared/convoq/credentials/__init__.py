"""Credentials: from a file, from encrypted storage in Redis, from the environment.

A node names one by id and name, as n8n's files do; where that one is not known, one of the same type does.
"""
