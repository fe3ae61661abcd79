"""Snapshots of code, named by the digest of their content. Wired in `server/wiring.py`.

`store` makes them from directories and archives, `git` from repositories, `arrivals` from uploads of clients;
below them `tree` and `ignore` select the entries of a snapshot, and check trees from elsewhere; `content` and
`packs` store and read them.
"""
