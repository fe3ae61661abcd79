"""Run + allocation + nodes to argv and environment per worker. Pure; called by `control`."""

from tarmac.launch.compose import compose
from tarmac.launch.rendering import site_name, site_text

__all__ = ["compose", "site_name", "site_text"]
