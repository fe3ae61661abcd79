"""Artifacts, datasets and secrets for the routes, and their removal by age."""
