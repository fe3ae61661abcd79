"""The HTTP API and the composition root. Started by `python -m tarmac.server`."""
