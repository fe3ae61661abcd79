"""docs/operating/clusters.md documents every field of a cluster description, and its examples are good."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tarmac.dialects.clusterfile import CLUSTER, GROUP, read_cluster
from tarmac.dialects.pool_rules import POOL
from tarmac.engines.slurm.settings import FIELDS
from tarmac.systems.registry import read

PAGE = (Path(__file__).resolve().parents[3] / "docs/operating/clusters.md").read_text(encoding="utf-8")


def test_every_field_has_its_row_and_every_row_its_field() -> None:
    page = PAGE.partition("\n## Your Slurm\n")[0]
    rows = set(re.findall(r"^\| `([a-z_.]+)` \|", page, re.MULTILINE))
    parts = {"": CLUSTER.fields, "nodes.": GROUP.fields, "pools.": POOL.fields}
    assert rows == {f"{prefix}{name}" for prefix, fields in parts.items() for name in fields}


def test_every_setting_of_slurm_has_its_row_and_every_row_its_setting() -> None:
    section = PAGE.partition("\n## Your Slurm\n")[2]
    rows = re.findall(r"^\| (`[a-z_`, ]+`) \|", section, re.MULTILINE)
    assert {name for row in rows for name in re.findall(r"`([a-z_]+)`", row)} == set(FIELDS)


@pytest.mark.parametrize("source", re.findall(r"```yaml\n(.*?)```", PAGE, re.DOTALL))
def test_the_examples_are_read_without_a_warning(source: str) -> None:
    if source.startswith("name:"):
        assert read_cluster(source, filename="lab.yaml").warnings == ()
    else:
        assert read(source, filename="run.yaml", directory="/home/ada").warnings == ()
