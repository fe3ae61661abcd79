"""Decisions about a run as data: pure functions from facts to a `RunStep`."""
