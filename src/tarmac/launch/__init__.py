"""Run + allocation + nodes to argv and environment per worker. Pure; called by `control`.

`compose` makes the launch common to every run, whatever its file; `unicore_job` and `batch_script` make the
texts for a batch system. The dialect of a run adds its system's promises to the finished launch
(`systems.registry.apply_conventions`).
"""
