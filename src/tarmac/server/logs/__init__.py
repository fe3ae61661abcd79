"""Logs and reports of runs, read from attempt directories and streamed to followers."""
