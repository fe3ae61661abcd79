"""The durable record: SQL, and the in-memory fake. Wired in `server/wiring.py`."""
