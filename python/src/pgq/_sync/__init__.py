# Written by unasync.py from _async/__init__.py: change that one.

"""The client, consumers, publishers and transports, for threads."""
