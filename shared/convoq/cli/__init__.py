"""The `convoq` command: one file a command, or a few that belong together.

What they do lies below; here is what a person types and reads.
"""
