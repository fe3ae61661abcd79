"""Files that a run can write, secrets, and logs: read with bounds, written with masks."""
