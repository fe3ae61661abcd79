"""The index of each pool: its nodes, its queue, its holders and when they end."""
