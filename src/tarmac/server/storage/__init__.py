"""Artifacts, datasets and secrets for the routes, and what clears them up by age."""
