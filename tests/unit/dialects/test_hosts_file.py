"""Hosts files: what they say, and every problem of one at its line and column."""

from __future__ import annotations

import pytest

from tarmac.dialects.hosts_file import read_machines
from tarmac.model.cluster import Machine
from tarmac.model.errors import InvalidInput

WELL = """
# our GPU servers
ada@gpu1.example.org slots=8 cpus=16 address=10.0.0.1 python=/opt/ray/bin/python3   # the first
gpu2 head slots=8 cpus=16 port=6380 python=/opt/ray/bin/python3
gpu3 slots=8 cpus=16 python=/opt/ray/bin/python3 directory=/data/tarmac
"""


def _problems(text: str) -> list[str]:
    with pytest.raises(InvalidInput) as refusal:
        read_machines(text, filename="hosts.txt")
    return [str(problem) for problem in refusal.value.problems]


def test_a_line_is_a_machine_with_what_it_says() -> None:
    all_have = {"slots": 8, "cpus": 16, "python": "/opt/ray/bin/python3"}
    assert read_machines(WELL, filename="hosts.txt") == (
        Machine(name="gpu1.example.org", user="ada", address="10.0.0.1", **all_have),
        Machine(name="gpu2", head=True, port=6380, **all_have),
        Machine(name="gpu3", directory="/data/tarmac", **all_have),
    )


def test_the_first_is_the_head_where_none_is_marked() -> None:
    assert [machine.head for machine in read_machines("a\nb\n", filename="hosts.txt")] == [True, False]


def test_all_problems_are_found_each_at_its_place_with_the_nearest_word() -> None:
    text = "gpu1 slot=8 head\ngpu2 slots=many cpus=0\n-oProxyCommand=x\ngpu2:22\ngpu1 head adress=1\n"
    assert _problems(text) == [
        "hosts.txt:1:6: 'slot=8' is not known here (did you mean slots=?)",
        "hosts.txt:2:12: slots is 'many' (a whole number from 1 to 1024 is expected)",
        "hosts.txt:2:22: cpus is '0' (a whole number from 1 to 65536 is expected)",
        "hosts.txt:3:1: '-oProxyCommand=x' is no host (a line begins with the name of its host)",
        "hosts.txt:4:1: 'gpu2:22' is no host "
        "(the port of a host is said in ~/.ssh/config, under a name that stands here)",
        "hosts.txt:5:1: gpu1 stands on line 1 already (one line for each name)",
        "hosts.txt:5:6: gpu1 on line 1 is the head already (a cluster has one)",
        "hosts.txt:5:11: 'adress=1' is not known here (did you mean address=?)",
    ]


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("# nobody\n", "hosts.txt: no host is in this file (one line a host, such as 'ada@gpu1 slots=8')"),
        ("a\nb port=7000\n", "hosts.txt:2:1: port= is for the head alone"),
        ("a slots=1 slots=2\n", "hosts.txt:1:11: slots stands twice on this line"),
        (
            "a python=/opt/a/bin/python\nb\n",
            "hosts.txt:2:1: b has no python=, a has python=/opt/a/bin/python "
            "(the same on all hosts, or on none: then it is python3)",
        ),
        (
            "a slots=4\nb slots=8\n",
            "hosts.txt:2:1: b has slots=8, a has slots=4 "
            "(the same on all hosts, or on none: then each has what is found there)",
        ),
        ("a gpus=8\n", "hosts.txt:1:3: 'gpus=8' is not known here (did you mean slots=?)"),
        (
            "a address=10.0.0.1\nb address=10.0.0.1\n",
            "hosts.txt:2:1: 10.0.0.1 stands on line 1 already (one line for each address)",
        ),
        (
            "a directory=/a/../b\n",
            "hosts.txt:1:13: directory is '/a/../b' "
            "(an absolute path of letters, digits and _./+@-, without '..')",
        ),
        (
            "a address=gpu1\n",
            "hosts.txt:1:11: address is 'gpu1' "
            "(an address such as 10.0.0.7, at which the other hosts reach this one)",
        ),
        ("a python=x;y\n", "hosts.txt:1:10: python is 'x;y' (a command or a path, without blanks)"),
    ],
)
def test_what_is_not_allowed_is_named_with_what_is(text: str, problem: str) -> None:
    assert _problems(text) == [problem]
