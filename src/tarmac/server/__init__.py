"""The server: HTTP API, event streams, and the composition root. Started by `python -m tarmac.server`."""
