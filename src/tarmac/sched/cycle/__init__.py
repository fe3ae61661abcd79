"""One scheduling cycle: due decisions, starts, preemptions and reserved nodes of each pool."""
