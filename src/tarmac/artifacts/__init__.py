"""Files that are kept: `code` snapshots, `versions` of artifacts, `datasets`. Wired in `server/wiring.py`.

The three parts know nothing of one another; `durable` and `remote` (files behind a URL) are what they share.
"""
