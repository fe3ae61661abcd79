"""Which versions have had their time, and which never have."""

from __future__ import annotations

import pytest

from tarmac.artifacts.versions.catalog import DAY_S, Rules, VersionSummary, expired_versions
from tarmac.artifacts.versions.manifest import Version

NOW = 100 * DAY_S


def kept(run_id: str, *numbers: int, kind: str = "checkpoint", rank: int = 0) -> list[VersionSummary]:
    return [
        VersionSummary(
            version=Version(run_id=run_id, kind=kind, rank=rank, number=number),
            attempt=1,
            created_at=float(number),
            files=1,
            size_bytes=1,
        )
        for number in numbers
    ]


@pytest.mark.parametrize(
    ("versions", "days", "ended_at", "inputs", "gone"),
    [
        (2, None, None, (), ["r1.checkpoint.1", "r1.checkpoint.2"]),
        (1, None, None, ("r1.checkpoint.2",), ["r1.checkpoint.1", "r1.checkpoint.3"]),
        (9, 10.0, NOW - 5 * DAY_S, (), []),
        (9, 10.0, None, (), []),
        (
            9,
            10.0,
            NOW - 11 * DAY_S,
            ("r1.checkpoint.4",),
            [f"r1.checkpoint.{number}" for number in (1, 2, 3)],
        ),
        (1, 0.0, None, (), ["r1.checkpoint.1", "r1.checkpoint.2", "r1.checkpoint.3"]),
    ],
)
def test_what_goes(
    versions: int, days: float | None, ended_at: float | None, inputs: tuple[str, ...], gone: list[str]
) -> None:
    """Never the latest of a run that has not ended, never what a run that has not ended reads."""
    found = expired_versions(
        kept("r1", 1, 2, 3, 4),
        rules=Rules(versions=versions, days=days),
        now=NOW,
        ended_at={"r1": ended_at},
        inputs=inputs,
    )
    assert [version.id for version in found] == gone


def test_each_artifact_is_counted_by_itself_and_other_files_stay() -> None:
    found = expired_versions(
        [*kept("r1", 1, 2), *kept("r1", 1, kind="crud"), *kept("r1", 1, rank=1), *kept("r9", 1, 2, 3)],
        rules=Rules(versions=1, days=None),
        now=NOW,
        ended_at={"r1": None},
        inputs=(),
    )
    assert [version.id for version in found] == ["r1.checkpoint.1"]
