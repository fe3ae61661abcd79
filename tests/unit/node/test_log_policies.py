"""What is found in the logs of an attempt that failed, on one node."""

from __future__ import annotations

from pathlib import Path

import pytest

from tarmac.node.attempt.document import LogPattern
from tarmac.node.files.logroom import cut
from tarmac.node.hooks.policies import LONGEST_LINE_BYTES, search


def found(log: Path, *patterns: str) -> list[tuple[int, str]]:
    policies = [LogPattern(pattern, pattern) for pattern in patterns]
    return list(search(policies, [str(log), str(log.with_name("absent.log"))]))


@pytest.mark.parametrize(
    ("pattern", "line"),
    [
        ("CUDA out of memory", "RuntimeError: CUDA out of memory. Tried"),
        (".*CUDA out of memory.*", "RuntimeError: CUDA out of memory. Tried"),
        ("^step 2$", "step 2"),
        ("(?i)RUNTIMEERROR", "RuntimeError: CUDA out of memory. Tried"),
        ("50%", "50%|#####"),
        (r"ends with \.*", "ends with ..."),
        ("nothing|else", None),
        ("step.*CUDA", None),
        ("", "step 1"),
    ],
)
def test_a_pattern_is_searched_for_in_each_line(tmp_path: Path, pattern: str, line: str | None) -> None:
    """The first line that has it, also one that was drawn over."""
    log = tmp_path / "main.0.0.log"
    log.write_text("step 1\nstep 2\n10%|#\r50%|#####\nRuntimeError: CUDA out of memory. Tried\nends with ...")
    assert found(log, pattern) == ([] if line is None else [(0, line)])


def test_each_policy_is_found_once_and_what_is_no_pattern_is_passed_over(tmp_path: Path) -> None:
    log = tmp_path / "main.0.0.log"
    log.write_bytes(b"one\ntwo \xff\none two\n")
    assert found(log, "two", "(", "one") == [(2, "one"), (0, "two \ufffd")]


def test_a_pattern_at_both_ends_of_a_long_line_takes_no_time(tmp_path: Path) -> None:
    """`.*x.*` over a line without an x would try each beginning anew."""
    log = tmp_path / "main.0.0.log"
    log.write_text(("y" * 10 * LONGEST_LINE_BYTES + "\n") * 200 + "x\n")
    assert found(log, ".*x.*") == [(0, "x")]


def test_what_was_cut_out_of_a_log_is_passed_over(tmp_path: Path) -> None:
    log = tmp_path / "main.0.0.log"
    log.write_text("first\n" + "middle\n" * 100_000 + "last\n")
    cut(str(log), keep_bytes=1000)
    assert found(log, "last", "first") == [(1, "first"), (0, "last")]


def test_a_line_over_two_pieces_of_a_file_is_one(tmp_path: Path) -> None:
    log = tmp_path / "main.0.0.log"
    log.write_text("z" * 1000 + "\n" + "a" * ((1 << 20) - 1004) + "\nneedle\n")
    assert found(log, "^needle$") == [(0, "needle")]
