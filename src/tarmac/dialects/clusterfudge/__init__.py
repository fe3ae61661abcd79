"""Clusterfudge launches: the JSON of a request, and launch scripts, checked without running them.

Reached through `dialects.registry`; `tarmac.clusterfudge` is the package that scripts import.
"""
