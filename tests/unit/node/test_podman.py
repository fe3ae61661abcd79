"""A user namespace that Podman makes: `node/container/podman.py`, with a program that stands for it."""

from __future__ import annotations

from pathlib import Path

import pytest

from tarmac.node.container.making import is_divided, user_namespace
from tarmac.node.container.root import CannotMake

COMPLAINT = r"""time="2026" level=warning msg="\"/\" is not a shared mount, this could cause issues"
cannot setresgid: Invalid argument
time="2026" level=error msg="invalid status, try \"podman system migrate\""
"""


def test_what_podman_complains_of_is_one_line_without_warnings(tmp_path: Path) -> None:
    (tmp_path / "said").write_text(COMPLAINT)
    program = tmp_path / "podman"
    program.write_text(f"#!/bin/sh\ncat {tmp_path}/said >&2\nexit 1\n")
    program.chmod(0o755)
    with pytest.raises(CannotMake) as found, user_namespace(str(program), str(tmp_path / "run")):
        pass
    told = 'cannot setresgid: Invalid argument; invalid status, try "podman system migrate"'
    assert str(found.value) == told


@pytest.mark.parametrize(
    ("text", "divided"),
    [("0 0 4294967295", False), ("0 1000 1", True), ("0 1000 1\n1 100000 65536", True)],
)
def test_a_namespace_of_our_own_is_known_by_its_users(text: str, divided: bool, tmp_path: Path) -> None:
    (tmp_path / "uid_map").write_text(f"    {text}\n")
    assert is_divided(str(tmp_path / "uid_map")) is divided
