"""Nodes of one provider's application: a model asked by itself, without an agent or a chain.

Of what they can do elsewhere (images, audio, files, assistants) only the asking of a model is done here.
"""
