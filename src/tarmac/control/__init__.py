"""The control plane: use cases and durable loops, over the ports alone. Called by `server`."""
