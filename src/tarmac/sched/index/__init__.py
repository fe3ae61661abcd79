"""What the ledger keeps of each pool: its nodes, its queue, who holds what and when that ends."""
