"""Stands for Apptainer where a rehearsal has none: its command line, by our own containers."""
