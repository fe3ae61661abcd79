"""Experiment configurations of Determined: read and checked as that system does, made into a run.

`fields`, `storage` and `searchers` say what a configuration may hold, in the shapes of `schema`, which reads
a text along them; `merging` adds what the cluster gives, and defaults; `reader` makes the run
of it. `apply_conventions` gives a launch what trials find there.
"""
