"""What people are told: why a run waits, what would start it, and the queue in order."""
