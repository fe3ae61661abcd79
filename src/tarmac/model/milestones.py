"""What the nodes saw of an attempt: its milestones, and the container image it ran in. Part of its record."""

from __future__ import annotations

from msgspec import Struct


class AttemptImage(Struct, frozen=True, kw_only=True):
    """The image of an attempt, as its nodes report it. `digest` "": not known yet, or a plain directory.

    `fetched_bytes` of `total_bytes` have come from `source` (a registry, or a path of the node) in `fetch_s`.
    `source` "": the nodes had the image.
    """

    digest: str = ""
    source: str = ""
    fetched_bytes: int = 0
    total_bytes: int = 0
    fetch_s: float = 0.0


class SavedWork(Struct, frozen=True):
    """When a checkpoint was saved, 0: there is none; and the step it is of, where the SDK made it."""

    at: float = 0.0
    step: int | None = None


class Milestones(Struct, frozen=True, kw_only=True):
    """What the nodes saw of an attempt: first output, last whole checkpoint, whether it read one, its image.

    `checkpoint_at` is when the newest checkpoint of this attempt was whole, `checkpoint_step` the step it is
    of, where the SDK made it; `read_at` when the attempt first read one that an earlier attempt had left;
    `kept` is the newest checkpoint in the newest version in the artifact store, `restored` the one that it
    began from, where a node had to restore it. `over_at` is when the last worker of one that was not lost had
    ended: storing what it left may take long.
    """

    first_output_at: float | None = None
    checkpoint_at: float | None = None
    read_at: float | None = None
    checkpoint_step: int | None = None
    kept: SavedWork | None = None
    restored: SavedWork | None = None
    over_at: float | None = None
    image: AttemptImage | None = None


NOTHING_SEEN = Milestones()


def merge_milestones(known: Milestones, seen: Milestones) -> Milestones:
    """What is known after more was seen, later or on another node: the first output and reading, the newest
    checkpoint.
    """
    if NOTHING_SEEN in (known, seen) or seen == known:
        return seen if known == NOTHING_SEEN else known
    newest = max(seen, known, key=lambda each: each.checkpoint_at or 0.0)
    return Milestones(
        first_output_at=min(filter(None, (known.first_output_at, seen.first_output_at)), default=None),
        checkpoint_at=newest.checkpoint_at,
        read_at=min(filter(None, (known.read_at, seen.read_at)), default=None),
        checkpoint_step=newest.checkpoint_step,
        kept=seen.kept or known.kept,
        restored=seen.restored or known.restored,
        over_at=max(filter(None, (known.over_at, seen.over_at)), default=None),
        image=seen.image or known.image,
    )
