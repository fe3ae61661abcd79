"""Experiment configurations of Determined: read and checked as that system does, made into a run.

`fields`, `storage` and `searchers` say what a configuration may hold, in the shapes of `schema`, which reads
a text along them. `merging` adds the values of the cluster and the defaults; `reader` makes the run.
`apply_conventions` gives a launch what trials expect.
"""
