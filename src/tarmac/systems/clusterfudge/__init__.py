"""Clusterfudge launches: the JSON of a request, and launch scripts, checked without running them.

Reached through `systems.registry`; `tarmac.systems.clusterfudge.scripts` is the package that scripts import.
"""
