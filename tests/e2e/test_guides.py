"""The guides do what they say: each is followed to the letter by somebody who has never used tarmac."""

from __future__ import annotations

from pathlib import Path

import pytest

from guides import newcomer, page

GUIDES = (
    "using/agents.md",
    "using/guides/coming-from.md",
    "using/guides/first-training.md",
    "using/guides/metrics.md",
    "using/guides/from-isc.md",
    "using/guides/from-mcli.md",
    "using/guides/from-determined.md",
    "using/guides/from-clusterfudge.md",
    "using/guides/from-mantik.md",
)


@pytest.mark.heavy
@pytest.mark.timeout(600)
@pytest.mark.parametrize("guide", GUIDES)
def test_a_guide_does_what_it_says(guide: str, tmp_path: Path) -> None:
    with newcomer(tmp_path / "ada") as reader:
        reader.follow(page(guide))
