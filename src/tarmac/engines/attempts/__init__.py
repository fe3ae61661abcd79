"""The attempt directory in the form of engines: created from a launch, read back as an observation.

Every engine may use this package; `node/attempt/protocol.py` describes the files of the directory.
"""
