"""Experiment configurations of Determined: read and checked as that system does, made into a run.

`table`, `sections`, `storage` and `searchers` say what a configuration may hold, in the shapes of `schema`;
`walk` checks a text against them; `merging` adds what the cluster gives, and defaults; `reader` makes the run
of it. `equip` gives a launch what trials find there.
"""
