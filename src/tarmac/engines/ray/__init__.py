"""Servers that Ray joins to a cluster.

Nothing is imported here: a server without such a cluster loads none of it.
"""
