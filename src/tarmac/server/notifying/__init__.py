"""Sends messages about runs from the server, by mail and by HTTP. Joined by `server.wiring`."""
