"""Versions of artifacts in a store. Made by a `sidecar` on each node; listed and cleared by the server.

`sync` makes a version of the files that `quiescence` finds whole, `restore` places one; `manifest` defines a
version, `blobs` its storage (`artifacts/remote.py` behind a URL); `catalog` and `store_lock` serve the
server.
"""
