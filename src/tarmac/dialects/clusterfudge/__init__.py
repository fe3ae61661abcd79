"""Clusterfudge launches: the JSON of a request, and launch scripts as far as they can be judged unstarted.

Reached through `dialects.registry`; `tarmac.clusterfudge` is what scripts import.
"""
