"""Hosts of clusters: machines where an engine works, and all of its I/O there.

A host is this machine or one behind SSH; the package also has the code that travels to it, and the server's
supplies for engines. Nothing is imported here: a server with only local clusters loads none of it.
"""
