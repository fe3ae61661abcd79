"""The nouns of tarmac, its transition tables, its ports and its errors.

Every layer above imports from here; this package imports nothing of ours and uses the standard
library alone. It reads no clock, no randomness and no environment.
"""
