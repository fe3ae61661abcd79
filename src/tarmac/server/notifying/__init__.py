"""How messages about runs leave the server: by mail and by HTTP. Joined by `server.wiring`."""
