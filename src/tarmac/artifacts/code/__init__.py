"""Snapshots of code, named by the digest of what they hold. Wired in `server/wiring.py`.

`store` makes them of directories and archives, `git` of repositories, `arrivals` of what clients send; under
them `tree` and `ignore` say what belongs to one, `content` and `packs` keep it, `snapshots` find it again,
and `treecheck` judges trees from elsewhere.
"""
