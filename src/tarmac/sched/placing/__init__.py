"""Placing a gang on the nodes of a pool: free slots, chosen nodes, and the reasons against the others."""
