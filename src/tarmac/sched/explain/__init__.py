"""Text for people: why a run waits, what would start it, and the queue in order."""
