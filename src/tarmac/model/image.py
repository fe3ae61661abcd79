"""The container image of an attempt. Part of its milestones, in `run`."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptImage:
    """The image of an attempt, as its nodes report it. `digest` "": not known yet, or a plain directory.

    `fetched_bytes` of `total_bytes` have come from `source` (a registry, or a path of the node) in `fetch_s`.
    `source` "": the nodes had the image.
    """

    digest: str = ""
    source: str = ""
    fetched_bytes: int = 0
    total_bytes: int = 0
    fetch_s: float = 0.0
