"""docs/clusters.md documents every field of a cluster description, and its examples are good."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tarmac.dialects import read
from tarmac.dialects.clusterfile import CLUSTER, read_cluster
from tarmac.dialects.node_groups import GROUP
from tarmac.dialects.pool_rules import POOL

PAGE = (Path(__file__).resolve().parents[3] / "docs/clusters.md").read_text(encoding="utf-8")


def test_every_field_has_its_row_and_every_row_its_field() -> None:
    rows = set(re.findall(r"^\| `([a-z_.]+)` \|", PAGE, re.MULTILINE))
    parts = {"": CLUSTER, "nodes.": GROUP, "pools.": POOL}
    assert rows == {f"{prefix}{name}" for prefix, fields in parts.items() for name in fields.known}


@pytest.mark.parametrize("source", re.findall(r"```yaml\n(.*?)```", PAGE, re.DOTALL))
def test_the_examples_are_read_without_a_warning(source: str) -> None:
    if source.startswith("name:"):
        assert read_cluster(source, filename="lab.yaml").warnings == ()
    else:
        assert read(source, filename="run.yaml", directory="/home/ada").warnings == ()
