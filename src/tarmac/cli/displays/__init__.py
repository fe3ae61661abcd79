"""Runs in the form of other systems: one display for each, found by name in `registry`."""
