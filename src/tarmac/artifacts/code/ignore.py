"""Ignore rules of a code snapshot: `.tarmacignore`, else `.gitignore`, else defaults; and `exclude`.

Called by `tree.py` for every entry on its way down. The rules are git's: the last matching pattern of a file
decides, a deeper `.gitignore` overrides a higher one, and nothing below an ignored directory can be included
again. A dialect may have its own ignore file, which then applies alone; exclusions in a run file apply last.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path

from tarmac.artifacts.code.patterns import NoPattern, Pattern, parse
from tarmac.model.errors import InvalidInput, Problem
from tarmac.node.files import untrusted

OWN_FILE = ".tarmacignore"
GIT_FILE = ".gitignore"

ALWAYS = frozenset({".git"})
"""Excluded from every snapshot regardless of ignore files, unless the whole directory is requested."""

DEFAULTS = """\
.hg/
.svn/
__pycache__/
*.pyc
.venv/
venv/
.tox/
.nox/
.cache/
.mypy_cache/
.pytest_cache/
.ruff_cache/
.hypothesis/
.ipynb_checkpoints/
.eggs/
*.egg-info/
node_modules/
.DS_Store
"""

LARGEST_BYTES = 1 << 20
"""The maximum size of an ignore file that is read."""

ENVIRONMENT_MARKS = ("pyvenv.cfg", "conda-meta")
"""Marker files of a Python environment: such a directory is excluded from every snapshot as well.

It belongs to one machine: its links lead to the Python of that machine.
"""


@dataclass(frozen=True, slots=True)
class Layer:
    """The patterns of one ignore file, last first, which apply below its directory."""

    directory: str
    patterns: tuple[Pattern, ...]

    def decision(self, path: str, *, is_directory: bool) -> bool | None:
        """Whether the entry at `path` is ignored: the last matching pattern decides (None: none).

        Only matches of the entry itself count, as in git: the caller has checked its parent directories
        before.
        """
        for pattern in self.patterns:
            if pattern.means(path, is_directory=is_directory):
                return pattern.include
        return None


@dataclass(frozen=True, slots=True)
class Rules:
    """Every layer that applies in a directory, outermost first.

    `nested`: deeper ignore files count as well; `always` are names that are always excluded; `exclude` is the
    layer that counts last; `links_out`: this is a Python environment in a directory that is copied whole,
    whose links to its Python are ignored.
    """

    layers: tuple[Layer, ...]
    nested: bool = False
    always: frozenset[str] = ALWAYS
    links_out: bool = False
    exclude: Layer | None = None

    def ignores(self, path: str, *, is_directory: bool) -> bool:
        """Whether the entry at `path` (relative to the snapshot's root) is ignored."""
        if path.rpartition("/")[2] in self.always:
            return True
        if self.exclude is not None:
            decision = self.exclude.decision(path, is_directory=is_directory)
            if decision is not None:
                return decision
        for layer in reversed(self.layers):
            decision = layer.decision(path[len(layer.directory) :], is_directory=is_directory)
            if decision is not None:
                return decision
        return False

    def within(self, root: Path, path: str) -> Rules | None:
        """The rules for the directory at `path`; None if the whole directory is ignored."""
        directory = root / path
        try:
            if any((directory / mark).exists() for mark in ENVIRONMENT_MARKS):
                return None if self.always else replace(self, links_out=True)
            if not self.nested or not (directory / GIT_FILE).is_file():
                return self
        except PermissionError:
            return self  # the listing of the directory reports this error
        return replace(self, layers=(*self.layers, Layer(f"{path}/", _read(directory / GIT_FILE))))


def rules_of(
    root: Path, *, ignore_file: str | None = None, exclude: Sequence[str] = (), whole: bool = False
) -> Rules:
    """The rules for the snapshot of a directory; raises InvalidInput for an invalid pattern.

    With `ignore_file`, that file at the top applies alone, and without the file nothing is ignored.
    """
    return replace(_file_rules(root, ignore_file, whole=whole), exclude=excluding(exclude))


def excluding(patterns: Sequence[str]) -> Layer | None:
    """The layer of the run file's exclusion patterns; raises InvalidInput for an invalid one."""
    try:
        return Layer("", _patterns("\n".join(patterns))) if patterns else None
    except NoPattern:
        problems = [f"exclude: {problem.message}" for problem in _bad_lines(Path(), "\n".join(patterns))]
        raise InvalidInput([Problem(message=message) for message in problems]) from None


def _file_rules(root: Path, ignore_file: str | None, *, whole: bool) -> Rules:
    if whole:
        return Rules((), always=frozenset())
    if ignore_file is not None:
        own = root / ignore_file
        return Rules((Layer("", _read(own)),) if own.is_file() else ())
    if (root / OWN_FILE).is_file():
        return Rules((Layer("", _read(root / OWN_FILE)),))
    if (root / GIT_FILE).is_file():
        return Rules((Layer("", _read(root / GIT_FILE)),), nested=True)
    return Rules((Layer("", _patterns(DEFAULTS)),))


def _read(path: Path) -> tuple[Pattern, ...]:
    try:
        text = untrusted.read_bytes(str(path.resolve()), LARGEST_BYTES).decode("utf-8-sig", "surrogateescape")
    except OSError as error:
        raise InvalidInput([Problem(message=f"cannot be read: {error.strerror}", file=str(path))]) from None
    try:
        return _patterns(text)
    except NoPattern:
        raise InvalidInput(_bad_lines(path, text)) from None


@lru_cache(maxsize=64)
def _patterns(text: str) -> tuple[Pattern, ...]:
    return tuple(pattern for line in reversed(text.split("\n")) if (pattern := parse(line)) is not None)


def _bad_lines(path: Path, text: str) -> list[Problem]:
    problems = []
    for number, line in enumerate(text.split("\n"), start=1):
        try:
            parse(line)
        except NoPattern as none:
            problem = Problem(message=f"{line!r:.200} {none}", file=str(path), line=number)
            problems.append(problem)
    return problems
