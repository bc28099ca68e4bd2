"""Sub-nodes that supply memories, and the nodes that read and write them.

They are thin: parameters in, a store of `convoq.memory` out.
"""
