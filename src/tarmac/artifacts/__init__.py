"""Files that are kept: code, artifacts, datasets. Wired in `server/wiring.py`; three parts, each for itself.

- Code snapshots: `code` (directories and archives) and `git`, over `tree`, `content`, `packs`, `snapshots`;
  `arrivals` takes in what clients send, `treecheck` judges trees from elsewhere.
- Versions of artifacts: `sidecar` on each node fills directories (`filling`, `restore`) and makes versions
  (`stillness`, `sync`) in a store (`stores`, `blobs`, `remote`); `catalog` and `retention` serve the server.
- Datasets: `datasets` fetches what lies elsewhere.
"""
