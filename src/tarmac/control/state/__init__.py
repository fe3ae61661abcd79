"""What the control plane keeps in memory: runs, engines, nodes, the scheduler's facts, usage."""
