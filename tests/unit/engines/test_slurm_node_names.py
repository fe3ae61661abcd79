"""Nodes by name, as `sbatch` takes them."""

from __future__ import annotations

import pytest

from tarmac.engines.slurm.script import hostlist, node_directives

KNOWN = ("n1", "n2", "n3", "n4")


@pytest.mark.parametrize(
    ("hostnames", "excluded", "nodes", "found"),
    [
        ((), (), 1, {}),
        (("n2",), (), 1, {"nodelist": "n2"}),
        (("n3", "n1"), (), 2, {"nodelist": "n[1,3]"}),
        (("n1", "n2", "n3"), (), 2, {"exclude": "n4"}),
        (("n1", "n2", "n3"), ("n3",), 2, {"nodelist": "n[1-2]", "exclude": "n3"}),
        (("n1", "n2"), (), 1, {"exclude": "n[3-4]"}),
        (KNOWN, (), 2, {}),
        ((), ("n4", "n2"), 1, {"exclude": "n[2,4]"}),
    ],
)
def test_a_job_gets_some_of_the_nodes_that_are_named(
    hostnames: tuple[str, ...], excluded: tuple[str, ...], nodes: int, found: dict[str, str]
) -> None:
    assert dict(node_directives(hostnames, excluded, nodes=nodes, known=KNOWN)) == found


def test_in_a_partition_that_nobody_has_read_the_first_are_taken() -> None:
    assert dict(node_directives(("b", "a"), (), nodes=1, known=())) == {"nodelist": "b"}


def test_names_are_written_shortly() -> None:
    names = ["n10", "n9", "n1", "n2", "n3", "gpu-a", "r1c2", "r1c3", "n007", "12"]
    assert hostlist(names) == "n[1-3,9-10],r1c[2-3],12,gpu-a,n007"
    assert hostlist(["n5", "n5"]) == "n5"
