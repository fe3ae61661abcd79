"""The attempt directory as engines use it: made from a launch, read back as an observation.

Below the engines, each of which may use it; `node/attempt/protocol.py` says what lies where in the directory.
"""
