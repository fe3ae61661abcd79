"""tarmac: launches machine-learning training on whatever cluster you have."""

__version__ = "0.1.0"
