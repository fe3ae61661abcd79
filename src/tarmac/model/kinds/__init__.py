"""Kinds of engines: their port, and values in the settings of clusters and of providers."""
