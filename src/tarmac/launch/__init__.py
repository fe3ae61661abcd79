"""Run + allocation + nodes to argv and environment per worker. Pure; called by `control`."""
