"""Files that a run can write, secrets, and logs: bounded reads, masked output."""
