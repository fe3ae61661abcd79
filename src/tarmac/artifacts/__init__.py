"""Stored files: `code` snapshots, `versions` of artifacts, `datasets`. Wired in `server/wiring.py`.

The three parts do not depend on one another; they share `remote` (files behind a URL).
"""
