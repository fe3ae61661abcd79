"""Code directories made to hold a server up: patterns, ignore files, depth, what ends the server."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tarmac.artifacts.code.store import MOST_TRIES, DirectoryCodeStore
from tarmac.artifacts.code.tree import TooSlow, at_most, scan
from tarmac.model.errors import InvalidInput
from tarmac.model.spec import LocalDirectory

DEADLINE_S = 60
"""Each of these took longer than anybody lives, and takes milliseconds."""

NAME = "a" * 120
DEEP = "/".join(["a"] * 500)

HOSTILE = [
    ("*a*a*a*a*a*a*a*b", NAME),
    ("*a" * 60 + "b", NAME),
    ("[ab]*" * 60 + "c", NAME),
    ("?*" * 60 + "b", NAME),
    ("*" * 4000 + "b", NAME),
    ("**/a/" * 40 + "b", DEEP),
    ("**/*a*/" * 40 + "b", DEEP),
    ("*/" * 200 + "**/b/**/*a*a*b", DEEP),
    ("a/**/" * 100 + "*b", DEEP),
    ("/**/**/**/**/**/**/a*a*a*a*b/**/c", DEEP),
    ("[" + "a-" * 1900 + "]*b", NAME),
]


@pytest.mark.parametrize(("pattern", "path"), HOSTILE, ids=range(len(HOSTILE)))
def test_no_pattern_takes_long_whatever_it_meets(pattern: str, path: str) -> None:
    program = (
        "import sys\nfrom tarmac.artifacts.code.ignore import parse\n"
        "pattern = parse(sys.argv[1])\n"
        "print([pattern.means(sys.argv[2], is_directory=False) for _ in range(10)][0])"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, pattern, path],
        check=True,
        capture_output=True,
        text=True,
        timeout=DEADLINE_S,
    )
    assert done.stdout == "False\n"


def test_a_pattern_longer_than_any_path_is_refused_where_it_stands(tmp_path: Path) -> None:
    (tmp_path / ".gitignore").write_text("*.log\n" + "*a" * 3000 + "\n")
    with pytest.raises(InvalidInput, match="longer than the 4,096 characters") as caught:
        scan(tmp_path)
    assert caught.value.problems[0].line == 2


def test_an_ignore_file_of_gigabytes_is_refused_unread(tmp_path: Path) -> None:
    (tmp_path / ".tarmacignore").write_bytes(b"")
    os.truncate(tmp_path / ".tarmacignore", 2 << 30)
    with pytest.raises(InvalidInput, match="longer than"):
        scan(tmp_path)


def test_an_ignore_file_that_is_none_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / ".gitignore")
    (tmp_path / "a.log").touch()
    assert [entry.path for entry in scan(tmp_path)] == ["a.log"]


def test_a_directory_deeper_than_python_recurses_is_read(tmp_path: Path) -> None:
    here = os.open(tmp_path, os.O_RDONLY)
    for _ in range(1200):
        os.mkdir("a", dir_fd=here)
        below = os.open("a", os.O_RDONLY, dir_fd=here)
        os.close(here)
        here = below
    os.close(here)
    entries = scan(tmp_path)
    subprocess.run(["rm", "-r", str(tmp_path / "a")], check=True)  # shutil recurses, too
    assert len(entries) == 1200
    assert entries[-1].path == "/".join(["a"] * 1200)


def test_a_copy_that_takes_too_long_fails_with_the_limit(tmp_path: Path) -> None:
    (tmp_path / "code").mkdir()
    (tmp_path / "code" / "train.py").touch()
    store = DirectoryCodeStore(tmp_path / "kept", timeout_s=-1.0)
    with pytest.raises(InvalidInput, match="cannot be copied within") as caught:
        store.stage(LocalDirectory(path=str(tmp_path / "code")))
    assert "code.timeout_s" in str(caught.value.hint)
    with pytest.raises(TooSlow):
        scan(tmp_path / "code", check_time=at_most(-1.0))


def test_code_that_ends_every_server_is_refused_after_some_tries(tmp_path: Path) -> None:
    """A server that is killed while it copies leaves a mark; the next ones do not try for ever."""
    (tmp_path / "code").mkdir()
    root, code = tmp_path / "kept", LocalDirectory(path=str(tmp_path / "code"))
    store = DirectoryCodeStore(root)
    program = (
        "import os, sys\nfrom pathlib import Path\n"
        "from tarmac.artifacts.code.store import counted\nfrom tarmac.model.spec import LocalDirectory\n"
        "with counted(Path(sys.argv[1]), LocalDirectory(path=sys.argv[2])):\n    os._exit(9)"
    )
    for _ in range(MOST_TRIES):
        subprocess.run([sys.executable, "-c", program, str(root), code.path], check=False)
    with pytest.raises(InvalidInput, match=f"the server ended {MOST_TRIES} times"):
        store.stage(code)
    assert store.stage(code) == store.stage(code)  # submitted anew, it is tried anew
    assert [path.name for path in root.iterdir() if path.name.startswith(".trying")] == []
