"""Runs in container images: fetches and unpacks images, and enters them with a run's processes."""
