"""The way of a message, in the order of the files: admission (and its place in the session), entries, writer, finish;

what keeps the promise when something breaks: takeover, stopping; and RQ's own book-keeping, the ledger.
The API admits and reads, workers write and finish, and whoever finds a lapsed lease takes over.
"""
