"""The nouns of tarmac, its transition tables, its ports and its errors.

Every layer above imports from here. This package uses the standard library alone and imports nothing of ours.
It reads no clock, no randomness and no environment.
"""
