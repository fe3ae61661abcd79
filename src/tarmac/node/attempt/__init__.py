"""The attempt directory: its document, its claims, its events, and how an attempt ended."""
