"""The attempt directory: its document, its claims, its events, and the outcome of an attempt."""
