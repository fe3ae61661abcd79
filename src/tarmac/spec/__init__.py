"""Dialects to `RunSpec`: one reader each. Called by the server and by `tarmac check`."""
