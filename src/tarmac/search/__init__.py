"""Searches over parameters: from events of trials to operations on trials. Pure; used by `control`."""
