"""Runs in container images: images fetched, unpacked into layers, and entered by the processes of a run."""
