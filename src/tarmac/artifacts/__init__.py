"""Files that are kept: code snapshots. Wired in `server/wiring.py`."""
