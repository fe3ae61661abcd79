"""The Python SDK over HTTP. Standard library alone. Used by `cli` and by users."""
