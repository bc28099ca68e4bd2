"""n8n's expressions: the one door (`evaluate`), and what stands behind it.

Plain paths are read in Python; all else is JavaScript in a sandbox without a way out.
"""
