"""Starts and supervises the processes of one attempt."""
