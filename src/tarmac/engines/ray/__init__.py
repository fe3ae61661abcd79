"""The engine for servers that Ray joins to a cluster, where tarmac places runs; and their start.

Nothing is imported here: a server without such a cluster loads none of it.
"""
