"""Hyperparameter search: searchers as pure functions. Called by `control`."""
