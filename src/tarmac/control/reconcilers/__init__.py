"""The durable loops' bodies: each pass loads, decides and applies once. Run by `loops`, and by simulations.

Every pass is safe to lose at any point and to run again: what it decides is guarded by sequence number
and lease, what it does outside the store is idempotent.
"""
