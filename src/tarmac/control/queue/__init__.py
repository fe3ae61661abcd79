"""The queue as people see and change it."""
