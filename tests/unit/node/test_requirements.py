"""What of pip's arguments may be shared between runs, and for how long."""

from __future__ import annotations

from pathlib import Path

import pytest

from tarmac.node.setup.packages import examine, within_environment

COMMIT = "0123456789abcdef0123456789abcdef01234567"


@pytest.mark.parametrize(
    "arguments",
    [
        ["numpy"],
        ["numpy >= 2, < 3", "torch[cuda]==2.4 ; python_version > '3.9'"],
        ["--no-index", "--index-url", "https://example.org/simple", "numpy"],
        ["--extra-index-url=https://example.org/simple", "numpy"],
        [f"git+https://example.org/a.git@{COMMIT}"],
        [f"a @ git+https://example.org/a.git@{COMMIT}#subdirectory=b"],
        ["a @ https://example.org/a-1.0.tar.gz"],
    ],
)
def test_equal_words_come_to_equal_environments(tmp_path: Path, arguments: list[str]) -> None:
    judged = examine(arguments, str(tmp_path))
    assert (judged.shared, judged.moving) == (True, False)


@pytest.mark.parametrize(
    "arguments",
    [
        ["."],
        ["-e", "."],
        ["./library"],
        ["/srv/library"],
        ["library-1.0-py3-none-any.whl"],
        ["file:///srv/a"],
        ["git+https://example.org/a.git"],
        ["git+https://example.org/a.git@main"],
        ["a @ git+https://example.org/a.git@main"],
        ["--target", "here", "numpy"],
        ["--find-links", "wheels", "numpy"],
        ["-r", "missing.txt"],
        ["--some-new-option", "numpy"],
    ],
)
def test_what_may_differ_belongs_to_the_attempt(tmp_path: Path, arguments: list[str]) -> None:
    assert not examine(arguments, str(tmp_path)).shared


@pytest.mark.parametrize("option", ["-U", "--upgrade", "--force-reinstall"])
def test_what_moves_is_not_kept_for_ever(tmp_path: Path, option: str) -> None:
    assert examine([option, "numpy"], str(tmp_path)).moving


def test_a_file_of_requirements_counts_with_what_it_says(tmp_path: Path) -> None:
    (tmp_path / "base.txt").write_text("numpy  # for all\n")
    (tmp_path / "all.txt").write_text("-r base.txt\n-c limits.txt\ntorch>=2 \\\n  --hash=sha256:0\n")
    (tmp_path / "limits.txt").write_text("torch<3\n")
    before = examine(["-r", "all.txt"], str(tmp_path))
    assert before.shared
    assert len(before.files) == 3
    for other in ("--requirement=all.txt", "-rall.txt"):
        assert examine([other], str(tmp_path)).files == before.files
    (tmp_path / "base.txt").write_text("numpy<2\n")
    assert examine(["-r", "all.txt"], str(tmp_path)).files != before.files
    (tmp_path / "base.txt").write_text("-e .\n")
    assert not examine(["-r", "all.txt"], str(tmp_path)).shared
    (tmp_path / "base.txt").write_text("-r base.txt\n")
    assert not examine(["-r", "all.txt"], str(tmp_path)).shared, "a file that names itself comes to an end"


def test_a_user_installation_stays_in_the_environment() -> None:
    assert within_environment(["--user", "-e", "."]) == ["-e", "."]
