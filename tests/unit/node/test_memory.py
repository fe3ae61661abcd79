"""Signs of memory running out: counters that grow, in control groups of either version or machine-wide."""

from __future__ import annotations

from pathlib import Path

import pytest

from tarmac.node.kernel.workergroup import OomKills

LAYOUTS = [
    ("0::/user/me\n", "user/me/memory.events", "low 0\noom 4\noom_kill {}\n"),
    ("4:memory:/user/me\n0::/\n", "memory/user/me/memory.oom_control", "under_oom 0\noom_kill {}\n"),
    ("", None, "nr_free_pages 7\noom_kill {}\n"),
]


@pytest.mark.parametrize(("groups", "counter", "text"), LAYOUTS)
def test_a_counter_that_grew_is_a_sign(tmp_path: Path, groups: str, counter: str | None, text: str) -> None:
    proc, sys = tmp_path / "proc", tmp_path / "sys"
    (proc / "self").mkdir(parents=True)
    (proc / "self/cgroup").write_text(groups)
    path = sys / counter if counter else proc / "vmstat"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text.format(2))
    victims = OomKills(proc=str(proc), groups=str(sys))
    assert not victims.grew()
    path.write_text(text.format(3))
    assert victims.grew()


def test_no_counter_no_sign(tmp_path: Path) -> None:
    assert not OomKills(proc=str(tmp_path), groups=str(tmp_path)).grew()
