"""The portable part of tarmac: the runner, the hooks around it and the SDK inside a run.

It is copied to machines without an installed tarmac: standard library alone, Python 3.9 and later, imports no
other package of tarmac.
"""
