"""docs/using/slurm.md does what it says: its files are written, its commands typed, not by root."""

from __future__ import annotations

import pytest

from guides import page
from plain_users import NotPossible, user_of_slurm
from slurm_clusters import Missing

pytestmark = [pytest.mark.real_engine, pytest.mark.xdist_group("slurm-guide"), pytest.mark.timeout(600)]

LINES = "PartitionName=short Nodes=ALL MaxTime=1 State=UP"
"""The time of a job is short, as the guide says."""


def test_the_guide_does_what_it_says() -> None:
    try:
        with user_of_slurm(nodes=2, cpus_per_node=4, lines=LINES) as site:
            site.reader.follow(page("using/slurm.md"))
    except (Missing, NotPossible) as missing:
        pytest.skip(str(missing))
