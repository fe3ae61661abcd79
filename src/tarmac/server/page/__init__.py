"""The page of a server: its files, and the way of a browser to them. The page itself is in `web/`."""
