"""Run + allocation + nodes to argv and environment per worker. Pure; called by `control`."""

from tarmac.launch.compose import compose

__all__ = ["compose"]
