"""The engine of servers that Ray joins to a cluster, on which tarmac places runs; and starting such servers.

Nothing is imported here: a server without such a cluster loads none of it.
"""
