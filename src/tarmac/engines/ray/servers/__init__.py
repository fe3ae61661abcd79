"""Starts and ends a Ray cluster on machines that only SSH reaches: `tarmac cluster up` and `down`."""
