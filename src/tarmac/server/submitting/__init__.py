"""Converts the body of a request into a run in the store."""
