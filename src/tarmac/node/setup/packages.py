"""Installs packages: of Python, into a shared environment if possible, and of the node's distribution.

Called by `hooks.setup`.

pip is the ordinary one, with the run's own variables (PIP_INDEX_URL and its like). The result of equal
requirements is stored and reused; packages of one working directory go into the attempt's own environment.
`examine` decides, before pip runs, whether runs may share its result: a step whose result may differ between
runs belongs to the attempt alone. `importer` finds the import of a package that a run's Python may lack.
"""

from __future__ import annotations

import os
import re
import shlex
import time
from contextlib import suppress
from typing import Any, Iterator, Mapping, Optional, Sequence

from tarmac.node.attempt.steps import AptStep, split
from tarmac.node.files import untrusted
from tarmac.node.files.codestore import digest
from tarmac.node.files.gitrules import without_secrets
from tarmac.node.setup.layers import Layers, bin_of, find_python
from tarmac.node.setup.setupwork import SetupWork, StepFailed

FRESH_S = 86400
"""How long the result of `upgrade` is reused: a day."""

_ELSEWHERE = frozenset({"PIP_TARGET", "PIP_PREFIX", "PIP_ROOT", "PIP_USER", "PYTHONHOME", "PYTHONPATH"})

_LOCK_S = 600
_PACKAGE = re.compile(r"[a-z0-9][a-z0-9+.-]*(:[a-z0-9]+)?(=[A-Za-z0-9.+:~-]+)?")


def install(
    work: SetupWork,
    layers: Optional[Layers],
    arguments: Sequence[str],
    *,
    directory: str,
    source: Optional[Sequence[Any]] = None,
) -> None:
    """`pip install ARGUMENTS` in a directory; `source` names the directory's content, if that is fixed."""
    work.say(f"+ {without_secrets(shlex.join(['pip', 'install', *arguments]))}")
    if layers is None:
        raise StepFailed("no Python is found by this run", exit_code=127, hint="see PATH, environment.venv")
    words = within_environment(arguments)
    if len(words) < len(arguments):
        work.say("(--user is left out: this run has an environment of its own)")
    env = _environment(work.env())
    found = examine(words, directory)
    shared = found.shared if source is None else not _editable(words)

    def fill(place: str) -> None:
        python = os.path.join(bin_of(place), "python")
        inside = {**env, "VIRTUAL_ENV": place, "PATH": f"{bin_of(place)}:{env.get('PATH', os.defpath)}"}
        if not _has_pip(work, layers, python, inside):
            work.do([python, "-m", "ensurepip", "--default-pip"], env=inside, directory=directory)
        work.do([python, "-m", "pip", "install", *words], env=inside, directory=directory)

    if layers.private or not shared:
        fill(layers.own)
        return
    age = int(time.time() // FRESH_S) if found.moving else None
    settings = sorted(item for item in env.items() if item[0].startswith("PIP_"))
    key = [words, found.files, age, list(source or ()), settings]
    if not layers.share(key, fill):
        work.say("(installed before by a run that asked the same: used again)")


def _has_pip(work: SetupWork, layers: Layers, python: str, env: Mapping[str, str]) -> bool:
    if work.run.container is not None:
        return work.ask([python, "-m", "pip", "--version"], env=env) is not None
    return any(os.path.isdir(os.path.join(site, "pip")) for site in layers.python.sites)


def _environment(env: Mapping[str, str]) -> dict[str, str]:
    """The environment of pip: without prompts, and only with the given target."""
    usual = {"PIP_DISABLE_PIP_VERSION_CHECK": "1", "PIP_ROOT_USER_ACTION": "ignore"}
    variables = {name: value for name, value in env.items() if name not in _ELSEWHERE}
    return {**usual, **variables, "PIP_NO_INPUT": "1"}


def _editable(arguments: Sequence[str]) -> bool:
    options = ("-e", "--editable=", "--target", "--prefix", "-t")
    return any(word == "--editable" or word.startswith(options) for word in arguments)


def install_system_packages(work: SetupWork, step: AptStep) -> None:
    """Install packages with apt-get, after other installations on this machine. Raises StepFailed."""
    strange = [name for name in step.packages if not _PACKAGE.fullmatch(name)]
    if strange:
        raise StepFailed(f"{strange[0]!r:.80} is not the name of a package")
    env = {**work.env(), "DEBIAN_FRONTEND": "noninteractive"}
    tool = ["apt-get", "-y", "-o", f"DPkg::Lock::Timeout={_LOCK_S}"]
    if work.run.container is not None and os.geteuid() != 0:
        tool += ["-o", "APT::Sandbox::User=root"]  # the container of an ordinary user has no other user
    for argv in ([*tool, "update"], [*tool, "install", "--", *step.packages]):
        work.say(f"+ {shlex.join(argv)}")
        try:
            work.do(argv, env=env)
        except StepFailed as failed:
            if failed.exit_code != 127 and os.geteuid() != 0:
                failed.hint = "apt-get needs root, and this run is not root on its node"
            raise


_MOST_FILES = 50
_MOST_SEARCHED_FILES = 5_000
_LARGEST_BYTES = 1 << 20
_NO_CODE = frozenset({"__pycache__", "node_modules", "site-packages"})
_FIND_PACKAGE = "import importlib.util, sys; sys.exit(importlib.util.find_spec(sys.argv[1]) is None)"


def examine(arguments: Sequence[str], directory: str) -> Examination:
    """The decision for arguments of `pip install` in a directory."""
    found = Examination(directory)
    found.add(arguments)
    return found


def within_environment(arguments: Sequence[str]) -> list[str]:
    """The arguments, without options that refer to directories outside the environment."""
    return [argument for argument in arguments if argument != "--user"]


class Examination:
    """Arguments and the requirement files that they name.

    `shared`: equal words give equal environments. `moving`: only for a while. `files` are the digests of
    files that the words refer to.
    """

    def __init__(self, directory: str) -> None:
        self.shared = True
        self.moving = False
        self.files: list[str] = []
        self._directory = directory

    def add(self, arguments: Sequence[str]) -> None:
        """Read further arguments."""
        words = iter(arguments)
        for word in words:
            if not word.startswith("-"):
                self._requirement(word)
                continue
            name, mark, value = word.partition("=")
            if name in _FLAGS:
                continue
            if name in _MOVING:
                self.moving = True
            elif name in _FILES or word[:2] in _SHORT_FILES:
                self._file(value if mark else word[2:] if word[:2] == name[:2] != name else next(words, ""))
            elif name in _LINKS:
                self._links(value if mark else next(words, ""))
            elif name in _VALUED:
                if not mark:
                    next(words, "")
            else:
                self.shared = False

    def _requirement(self, text: str) -> None:
        found = _NAMED.match(text)
        if found and found["url"] is not None:
            if _fixed(found["url"]):
                return
        elif (found and not _ARCHIVE.search(text.partition(";")[0].strip())) or _fixed(text):
            return
        self.shared = False

    def _file(self, name: str) -> None:
        path = os.path.join(self._directory, name)
        try:
            text = untrusted.read_bytes(os.path.realpath(path), untrusted.NOTE_BYTES).decode()
        except (OSError, ValueError):
            self.shared = False  # pip will report the error in it
            return
        self.files.append(digest(text))
        if len(self.files) > _MOST_FILES:
            self.shared = False
            return
        inner = Examination(os.path.dirname(path))
        inner.files = self.files
        for line in _lines(text):
            inner.add(split(line) if line.startswith("-") else [line.partition(" --")[0].strip()])
        self.shared = self.shared and inner.shared
        self.moving = self.moving or inner.moving

    def _links(self, place: str) -> None:
        """Add a directory of archives by its content; one below the working directory is private."""
        if "://" in place:
            return
        if not os.path.isabs(place):
            self.shared = False
            return
        stamps = []
        for name in sorted(os.listdir(place)) if os.path.isdir(place) else ():
            status = os.stat(os.path.join(place, name))
            stamps.append(f"{name} {status.st_size} {status.st_mtime_ns}")
        self.files.append(digest("\n".join(stamps)))


def _fixed(url: str) -> bool:
    """Whether a URL is immutable: an archive by HTTPS, or a full commit."""
    if _VERSION_CONTROL.match(url):
        return _COMMIT_AT_END.search(url.partition("#")[0]) is not None
    return url.startswith("https://")


def _lines(text: str) -> Iterator[str]:
    for line in text.replace("\\\n", " ").split("\n"):
        bare = re.sub(r"(^|\s)#.*$", "", line).strip()
        if bare:
            yield bare


_NAMED = re.compile(
    r"[A-Za-z0-9][A-Za-z0-9._-]*\s*(\[[^\]]*\])?\s*(@\s*(?P<url>\S+).*|(?=$|[<>=!~;(]).*)$", re.DOTALL
)
_ARCHIVE = re.compile(r"\.(whl|zip|tar\.[a-z0-9]+|tgz|tbz)$", re.IGNORECASE)
_VERSION_CONTROL = re.compile(r"(git|hg|svn|bzr)\+")
_COMMIT_AT_END = re.compile(r"@[0-9a-f]{40}$")

_FLAGS = frozenset(
    {
        "--no-index",
        "--pre",
        "--no-deps",
        "--no-build-isolation",
        "--prefer-binary",
        "--require-hashes",
        "--use-pep517",
        "--no-cache-dir",
        "--ignore-installed",
        "-I",
        "--no-compile",
        "--user",
        "-q",
        "--quiet",
        "-v",
        "--verbose",
        "-y",
    }
)
_MOVING = frozenset({"-U", "--upgrade", "--force-reinstall"})
_FILES = frozenset({"-r", "--requirement", "-c", "--constraint"})
_SHORT_FILES = frozenset({"-r", "-c"})
_LINKS = frozenset({"-f", "--find-links"})
_VALUED = frozenset(
    {
        "-i",
        "--index-url",
        "--extra-index-url",
        "--only-binary",
        "--no-binary",
        "--trusted-host",
        "--timeout",
        "--retries",
        "--proxy",
        "--cert",
        "--upgrade-strategy",
        "--progress-bar",
        "--hash",
        "--config-settings",
        "-C",
    }
)


def importer(directory: str, package: str) -> Optional[str]:
    """The first file of the code, by path, that imports a package; None if there is none."""
    name = re.escape(package)
    text = rf"^[ \t]*(?:from[ \t]+{name}(?!\w)|import[ \t](?:[\w., \t]*[, \t])?{name}(?!\w))"
    statement = re.compile(text.encode(), re.MULTILINE)
    for number, path in enumerate(_files(directory)):
        if number >= _MOST_SEARCHED_FILES:
            break
        with suppress(OSError):
            if statement.search(untrusted.read_bytes(path, _LARGEST_BYTES)):
                return os.path.relpath(path, directory)
    return None


def is_missing(work: SetupWork, package: str) -> bool:
    """Whether the Python of the run's commands lacks a package."""
    env = work.env()
    python = find_python(work, env)
    return python is None or work.ask([python, "-c", _FIND_PACKAGE, package], env=env) is None


def _files(directory: str) -> Iterator[str]:
    """The Python files of a tree."""
    for place, directories, names in os.walk(directory):
        directories[:] = sorted(
            name for name in directories if not name.startswith(".") and name not in _NO_CODE
        )
        for name in sorted(names):
            if name.endswith(".py"):
                yield os.path.join(place, name)
