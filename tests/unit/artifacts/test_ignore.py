"""What a snapshot leaves out: our own file, git's rules (with git as the judge), the defaults."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from examples import examples
from tarmac.artifacts.code.tree import Kind, scan
from tarmac.model.errors import InvalidInput
from tarmac.model.spec import LocalDirectory


def write(root: Path, files: dict[str, str]) -> Path:
    for name, content in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(content)
    return root


def kept(root: Path) -> set[str]:
    return {entry.path for entry in scan(root) if entry.kind is not Kind.DIRECTORY}


def test_own_file_is_the_only_one_that_counts(tmp_path: Path) -> None:
    root = write(
        tmp_path,
        {".tarmacignore": "*.log\n", ".gitignore": "*.py\n", "a.py": "", "a.log": "", "sub/b.log": ""},
    )
    assert kept(root) == {".tarmacignore", ".gitignore", "a.py"}


def test_gitignore_files_further_down_count_and_win(tmp_path: Path) -> None:
    root = write(
        tmp_path,
        {
            ".gitignore": "*.log\n/build/\n",
            "a.log": "",
            "build/x": "",
            "sub/.gitignore": "!keep.log\n*.tmp\n",
            "sub/keep.log": "",
            "sub/other.log": "",
            "sub/a.tmp": "",
            "sub/build/x": "",
        },
    )
    assert kept(root) == {".gitignore", "sub/.gitignore", "sub/keep.log", "sub/build/x"}


def test_without_ignore_files_environments_and_caches_stay_behind(tmp_path: Path) -> None:
    root = write(
        tmp_path,
        {
            "train.py": "",
            "__pycache__/train.pyc": "",
            "sub/.mypy_cache/x": "",
            "node_modules/x/index.js": "",
            "my-env/pyvenv.cfg": "",
            "my-env/bin/python": "",
            "conda/conda-meta/history": "",
            "env/settings.yaml": "",
        },
    )
    assert kept(root) == {"train.py", "env/settings.yaml"}


@pytest.mark.parametrize("rules", [".gitignore", ".tarmacignore", "own.ignore"])
def test_a_python_environment_of_any_name_never_travels(tmp_path: Path, rules: str) -> None:
    """D9: its links lead to the Python of one machine, and would be refused."""
    files = {"work-env/pyvenv.cfg": "", "sub/conda/conda-meta/history": "", "env/settings.yaml": ""}
    root = write(tmp_path, {**files, rules: "!work-env/\n"})
    for environment in ("work-env", "sub/conda"):
        (root / environment / "bin").mkdir()
        (root / environment / "bin/python").symlink_to("/usr/bin/python3")
    code = LocalDirectory(path=str(root), ignore_file=rules if rules == "own.ignore" else None)
    found = {entry.path for entry in scan(root, code=code)}
    assert found == {"env", "env/settings.yaml", "sub", rules}


@pytest.mark.parametrize("rules", [None, ".gitignore", ".tarmacignore"])
def test_git_itself_never_travels(tmp_path: Path, rules: str | None) -> None:
    files = {".git/config": "", "sub/.git": "gitdir: elsewhere", "a": ""}
    if rules:
        files[rules] = "!.git\n"
    assert kept(write(tmp_path, files)) == {"a", rules} - {None}


def test_a_pattern_that_is_none_is_located(tmp_path: Path) -> None:
    root = write(tmp_path, {".tarmacignore": "*.log\n!\n", "a": ""})
    with pytest.raises(InvalidInput) as caught:
        scan(root)
    (problem,) = caught.value.problems
    assert (problem.file, problem.line) == (str(root / ".tarmacignore"), 2)


WORDS = st.sampled_from(["a", "b", "ab", "a.b"])
PATHS = st.lists(WORDS, min_size=1, max_size=4).map("/".join)
PIECES = [
    "a",
    "b",
    "*",
    "?",
    "[ab]",
    "[!a]",
    "[^b-]",
    "[]a]",
    "[a-",
    "[[:lower:].]",
    "[b-a]",
    "\\a",
    "\\*",
    ".",
]
PARTS = st.one_of(
    st.sampled_from(["a", "b", "*", "?", "[ab]", "a*", "*.b", "**", "***", "\\a"]),
    st.lists(st.sampled_from(PIECES), min_size=1, max_size=4).map("".join),
)
GLOBS = st.lists(PARTS, min_size=1, max_size=4).map("/".join)
PATTERNS = st.builds(
    lambda negated, anchor, glob, end: negated + anchor + glob + end,
    st.sampled_from(["", "", "!"]),
    st.sampled_from(["", "/"]),
    GLOBS,
    st.sampled_from(["", "/", " ", "\\ "]),
)
IGNORE_FILES = st.lists(st.one_of(PATTERNS, st.just("# a"), st.just("")), max_size=5).map("\n".join)


@pytest.mark.skipif(shutil.which("git") is None, reason="git is the judge here, and it is not installed")
@settings(max_examples=examples(200), deadline=None)
@example(paths={"a.b/a/a"}, top="a/\n!*.b", nested={})
@example(paths={"a/a", "a/b/a"}, top="a/**/", nested={})
@example(paths={"a/a", "a/b"}, top="a/**\n!a/b", nested={})
@given(
    paths=st.sets(PATHS, min_size=1, max_size=8),
    top=IGNORE_FILES,
    nested=st.dictionaries(WORDS, IGNORE_FILES, max_size=2),
)
def test_gitignore_means_what_git_says(
    repository: Path, paths: set[str], top: str, nested: dict[str, str]
) -> None:
    with TemporaryDirectory() as temporary:
        root = Path(temporary)
        (root / ".gitignore").write_text(top)
        for path in sorted(paths):
            _touch(root / path)
        for directory, text in nested.items():
            if (root / directory).is_dir():
                (root / directory / ".gitignore").write_text(text)
        assert kept(root) == _kept_by_git(root, repository)


@pytest.fixture(scope="module")
def repository(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A repository in which nothing is tracked: one does for all trees that git is asked about."""
    place = tmp_path_factory.mktemp("repository") / ".git"
    subprocess.run(["git", "init", "-q", "--bare", str(place)], check=True, capture_output=True)
    return place


def _touch(path: Path) -> None:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        if not path.exists():
            path.touch()
    except (FileExistsError, NotADirectoryError):
        pass  # that name is a file already


def _kept_by_git(root: Path, repository: Path) -> set[str]:
    environment = {"PATH": os.environ["PATH"], "HOME": str(root), "GIT_CONFIG_NOSYSTEM": "1"}
    git = ["git", "-c", "core.excludesFile=/dev/null", "-c", "core.bare=false", "-C", str(root)]
    git += ["--git-dir", str(repository), "--work-tree", str(root)]
    listing = subprocess.run(
        [*git, "ls-files", "-z", "--others", "--exclude-standard"],
        check=True,
        env=environment,
        capture_output=True,
    )
    return {os.fsdecode(name) for name in listing.stdout.split(b"\0") if name}
