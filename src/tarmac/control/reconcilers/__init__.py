"""The bodies of the durable loops: each pass loads, decides and applies once. Run by `loops` and simulations.

Every pass may be interrupted at any point and run again: sequence numbers and the lease guard its decisions,
and its effects outside the store are idempotent.
"""
