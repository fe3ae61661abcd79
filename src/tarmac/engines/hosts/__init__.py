"""Hosts of clusters: machines where an engine does its work, and all of its I/O there.

A host is this machine or one behind SSH; what travels to it, and what a server gives engines for that, is
here as well. Nothing is imported here: a server whose clusters are all its own loads none of it.
"""
