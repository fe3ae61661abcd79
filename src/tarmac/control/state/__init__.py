"""The control plane's state in memory: runs, engines, nodes, the scheduler's facts, usage."""
