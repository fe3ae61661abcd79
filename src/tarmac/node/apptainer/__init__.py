"""Replaces Apptainer in a rehearsal without it: its command line, with tarmac's own containers."""
