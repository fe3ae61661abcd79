"""Experiment configurations of Determined, read and checked as in that system, and turned into a run.

`fields`, `storage` and `searchers` define the allowed contents in the shapes of `schema`, which reads a text
along them. `merging` adds the cluster's values and the defaults; `reader` creates the run.
`apply_conventions` adds to a launch what trials expect.
"""
