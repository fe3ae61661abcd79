"""What happens to a run, decided as data: pure functions from facts to a `RunStep`."""
