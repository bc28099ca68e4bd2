"""What a conversation remembers: stores of turns, and what all of them have in common.

Ours in Redis, n8n's lists, tables and documents on other servers; a turn is kept whole or not at all.
"""
