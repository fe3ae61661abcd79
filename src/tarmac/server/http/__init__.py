"""HTTP itself: listeners, connections, authentication, bodies, errors, server-sent events."""
