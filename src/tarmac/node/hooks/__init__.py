"""The steps of a runner, in the order in which `runner` takes them; one file each.

    claim -> artifacts_in -> mounts -> place_artifacts -> code -> setup -> before -> workers
               |                             |             |       |         |         |
               +-----------------------------+-------------+-------+---------+---------+--> Leave: no worker

    workers -> watch -> after -> artifacts_out

Each step is a function of the `NodeRun` and runs at most once, because a part is claimed only once.
"""
