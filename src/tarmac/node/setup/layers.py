"""The environments of one attempt: shared ones, made once for all equal requirements, and its own.

    nodes/NODE/venv        the attempt's own: from commands, editable installs and local paths
    ENVIRONMENTS/KEY       one for each set of requirements, over those of the steps before it
    the run's own Python   as its commands find it: never written to

Made by the hook `setup`; `packages` installs into them. A shared environment is made under a lock and is
valid after its mark exists; an attempt holds the lock in shared mode until it ends. `python -m venv` would
take a hundred times as long, and could not put one environment over another. A query of the facts about a
Python costs the start of an interpreter, so its result is stored beside the environments made for it.
"""

from __future__ import annotations

import fcntl
import json
import os
import shlex
import time
from contextlib import suppress
from typing import Any, Callable, Mapping, NamedTuple, Optional, Sequence

from tarmac.node.files import untrusted
from tarmac.node.files.codestore import digest
from tarmac.node.kernel.handles import closing, try_lock
from tarmac.node.setup.setupwork import SetupWork, StepFailed

_MARK = "whole"
_SCRIPTS = "scripts"
_POLL_S = 0.1
UNUSED_S = 30 * 86400.0

_LAYERS = "_tarmac_layers.pth"
_OWN = ("python", "pip", "activate", "Activate", "easy_install", "wheel")
"""Prefixes of scripts that are never copied from below: each environment has its own."""

_PIP = """\
for word; do
  shift
  [ "$word" = --user ] || set -- "$@" "$word"
done
exec "${0%/*}/python" -m pip "$@\""""
"""pip without `--user`: packages belong in the environment instead."""

_NAMES = ("python3", "python")
_QUESTION = """
import json, site, sys, sysconfig
places = list(site.getsitepackages())
if site.ENABLE_USER_SITE:
    places.insert(0, site.getusersitepackages())
print(json.dumps({
    "executable": sys.executable,
    "base": getattr(sys, "_base_executable", None) or sys.executable,
    "version": "%d.%d" % sys.version_info[:2],
    "whole_version": "%d.%d.%d" % sys.version_info[:3],
    "implementation": sys.implementation.cache_tag,
    "scripts": sysconfig.get_path("scripts"),
    "sites": places,
}))
"""


class Interpreter(NamedTuple):
    """A Python, with the directories of its installed packages, in the order of search."""

    executable: str
    base: str
    version: str
    whole_version: str
    implementation: str
    scripts: str
    sites: tuple[str, ...]

    def identity(self) -> list[Any]:
        """The identity of a Python, which also changes after an installation for it."""
        return [*self, [_changed_ns(site) for site in self.sites]]


_FIND = "command -v python3 || command -v python"


def find_python(work: SetupWork, env: Mapping[str, str]) -> Optional[str]:
    """The Python that commands in this environment find; None if there is none."""
    if work.run.container is not None:  # only the container's shell knows its paths
        with suppress(StepFailed):
            return (work.ask(["sh", "-c", _FIND], env=env) or "").strip() or None
        return None
    for place in os.get_exec_path(dict(env)):
        for name in _NAMES:
            path = os.path.join(place, name)
            if os.path.isfile(path) and os.access(path, os.X_OK):
                return os.path.abspath(path)
    return None


def ask_python(work: SetupWork, path: str, *, env: Mapping[str, str], root: str) -> Interpreter:
    """The facts about the Python at `path`; `root` is the directory of stored results. Raises StepFailed."""
    cache = os.path.join(root, f"python-{_mark(path, env)}.json")
    answer: Optional[Interpreter] = None
    with suppress(OSError), open(cache, encoding="utf-8") as file:
        answer = _parsed(file.read())
    if answer is None:
        quiet = {name: value for name, value in env.items() if name not in ("PYTHONPATH", "PYTHONHOME")}
        answer = _parsed(work.ask([path, "-c", _QUESTION], env=quiet) or "")
        if answer is None:
            raise StepFailed(f"{path} does not run as Python")
        untrusted.replace(cache, json.dumps(answer._asdict()).encode())
    return answer


def _mark(path: str, env: Mapping[str, str]) -> str:
    """A name for the result of this query to this program, until the program changes."""
    config = os.path.join(os.path.dirname(os.path.dirname(path)), "pyvenv.cfg")
    real = os.path.realpath(path)
    facts = [path, real, _changed_ns(real), _changed_ns(config), env.get("HOME"), env.get("PYTHONNOUSERSITE")]
    facts.append(env.get("PYTHONUSERBASE"))
    return digest(json.dumps([_QUESTION, facts]))[:32]


def _parsed(printed: str) -> Optional[Interpreter]:
    with suppress(ValueError, TypeError, KeyError):
        fields = json.loads(printed.strip().rpartition("\n")[2])
        return Interpreter(**{**fields, "sites": tuple(fields["sites"])})
    return None


def _changed_ns(path: str) -> int:
    with suppress(OSError):
        return os.stat(path).st_mtime_ns
    return 0


class Layers:
    """The environments of an attempt on a node, from the top: its own, then the shared ones of its steps."""

    def __init__(self, work: SetupWork, python: Interpreter, root: str) -> None:
        self._work = work
        self._root = root
        self._shared: list[str] = []
        self._key: list[Any] = python.identity()
        self.python = python
        self.own = work.run.node.venv
        self._base_scripts = self._scripts_of_base()
        make(self.own, python, self._below())
        self._untouched = contents(self.own, python)
        self._enter()

    @property
    def private(self) -> bool:
        """Whether the attempt's own environment has packages: later steps may depend on them."""
        return contents(self.own, self.python) != self._untouched

    def share(self, words: Any, install: Callable[[str], None]) -> bool:
        """Put the environment that `words` describe below the attempt's own; False if it existed.

        `install` fills an empty one; it is not called if another attempt has made it.
        """
        text = json.dumps([self._key, words], sort_keys=True)
        key = digest(text)[:32]
        directory = os.path.join(self._root, key)
        made = self._ensure(directory, install)
        self._key = [key]
        self._shared.insert(0, directory)
        set_below(self.own, self.python, self._below())
        self._enter()
        return made

    def _ensure(self, directory: str, install: Callable[[str], None]) -> bool:
        """Complete the environment if necessary; True if this attempt made it."""
        mark = os.path.join(directory, _MARK)
        handle = os.open(f"{directory}.lock", os.O_RDWR | os.O_CREAT, 0o600)
        self._work.run.lock_handles.append(handle)
        waited = False
        while True:
            if try_lock(handle, fcntl.LOCK_SH) and os.path.exists(mark):
                os.utime(mark)
                return False
            if try_lock(handle, fcntl.LOCK_EX):
                if not os.path.exists(mark):
                    self._make(directory, mark, install)
                fcntl.flock(handle, fcntl.LOCK_SH)
                return True
            fcntl.flock(handle, fcntl.LOCK_UN)
            if not waited:
                self._work.say("(another run is installing the same: waiting for it)")
                waited = True
            self._work.wait(_POLL_S * (1 + self._work.run.part.rank % 7 / 7))

    def _make(self, directory: str, mark: str, install: Callable[[str], None]) -> None:
        untrusted.discard_tree(directory)  # an incomplete one of a process that ended
        make(directory, self.python, self._below())
        try:
            install(directory)
        except BaseException:
            untrusted.discard_tree(directory)
            raise
        binaries = bin_of(directory)
        pass_on_scripts(binaries, os.path.join(directory, _SCRIPTS), others=True)
        record = {"made_at": time.time(), "python": self.python.executable}
        untrusted.replace(mark, json.dumps(record).encode())
        _sweep(self._root)

    def _below(self) -> list[str]:
        """The layers below the attempt's own environment, or below the next shared one."""
        return [*(site_of(directory, self.python) for directory in self._shared), *self.python.sites]

    def _enter(self) -> None:
        """Put these programs first on the PATH of later steps and of workers."""
        scripts = [os.path.join(directory, _SCRIPTS) for directory in self._shared]
        self._work.run.venv = self.own
        self._work.run.programs = [bin_of(self.own), *scripts, self._base_scripts]

    def _scripts_of_base(self) -> str:
        """The scripts of the run's own Python, adapted to see the packages above it."""
        binaries = self.python.scripts
        if self._work.run.container is not None:
            return binaries  # they can be read only in the container
        with suppress(OSError):
            text = json.dumps([binaries, os.stat(binaries).st_mtime_ns])
            target = os.path.join(self._root, f"scripts-{digest(text)[:32]}")
            if not os.path.isdir(target):
                pass_on_scripts(binaries, target, others=False)
            return target
        return binaries


def open_layers(work: SetupWork) -> Optional[Layers]:
    """The environments of this attempt here; None if its commands find no Python."""
    env = work.env()
    path = find_python(work, env)
    if path is None:
        return None
    root = work.run.document.environments or os.path.join(work.run.node.directory, "environments")
    if work.run.container is not None:  # different images may have different Pythons at the same path
        root = os.path.join(root, f"image-{work.run.container.image.key}")
    os.makedirs(root, mode=0o700, exist_ok=True)
    try:
        python = ask_python(work, path, env=env, root=root)
    except StepFailed:
        return None
    return Layers(work, python, root)


def _sweep(root: str) -> None:
    """Remove shared environments that are not in use and were unused for `UNUSED_S`."""
    for name in os.listdir(root):
        directory = os.path.join(root, name)
        mark = os.path.join(directory, _MARK)
        with suppress(OSError):
            if time.time() - os.stat(mark).st_mtime < UNUSED_S:
                continue
            with closing(os.open(f"{directory}.lock", os.O_RDWR)) as handle:
                if try_lock(handle, fcntl.LOCK_EX):
                    os.unlink(mark)
                    untrusted.discard_tree(directory)


def make(directory: str, python: Interpreter, below: Sequence[str]) -> None:
    """Make an empty environment that finds packages of the directories `below`, in this order."""
    binaries, site = bin_of(directory), site_of(directory, python)
    os.makedirs(binaries, exist_ok=True)
    os.makedirs(site, exist_ok=True)
    with suppress(FileExistsError):
        os.symlink("lib", os.path.join(directory, "lib64"))
    for name in ("python", "python3", f"python{python.version}"):
        with suppress(FileExistsError):
            os.symlink(python.base, os.path.join(binaries, name))
    settings = (
        f"home = {os.path.dirname(python.base)}",
        "include-system-site-packages = false",
        f"version = {python.whole_version}\n",
    )
    untrusted.write_new(os.path.join(directory, "pyvenv.cfg"), "\n".join(settings).encode())
    for name in ("pip", "pip3"):
        _write_script(os.path.join(binaries, name), _PIP)
    set_below(directory, python, below)


def set_below(directory: str, python: Interpreter, below: Sequence[str]) -> None:
    """Replace the directories below an environment."""
    places = repr([place for place in below if place != site_of(directory, python)])
    # A .pth line that begins with `import` is executed; directories that it adds are read for .pth files.
    line = f"import os, site; list(map(site.addsitedir, filter(os.path.isdir, {places})))\n"
    untrusted.replace(os.path.join(site_of(directory, python), _LAYERS), line.encode())


def bin_of(directory: str) -> str:
    """The directory of an environment's programs."""
    return os.path.join(directory, "bin")


def site_of(directory: str, python: Interpreter) -> str:
    """The directory of an environment's packages."""
    return os.path.join(directory, "lib", f"python{python.version}", "site-packages")


def contents(directory: str, python: Interpreter) -> frozenset[str]:
    """The names of an environment's packages."""
    with suppress(OSError):
        return frozenset(os.listdir(site_of(directory, python))) - {_LAYERS, "__pycache__"}
    return frozenset()


def pass_on_scripts(binaries: str, target: str, *, others: bool) -> None:
    """Make the programs of a lower environment in `target`, its Python scripts run by the topmost one.

    A script names its own interpreter, which ignores the environments above it: `torchrun` below would not
    find packages installed here. With `others`, programs of another kind are linked as well.
    """
    names = sorted(os.listdir(binaries))
    draft = f"{target}.{os.urandom(6).hex()}"  # a pid is local to a namespace
    untrusted.discard_tree(draft)
    os.makedirs(draft)
    for name in names:
        path = os.path.join(binaries, name)
        if name.startswith(_OWN) or not os.path.isfile(path) or not os.access(path, os.X_OK):
            continue
        interpreter = _interpreter_of(path)
        if interpreter is not None and os.path.dirname(interpreter) == binaries:
            script = shlex.quote(path)
            inside = f'exec "$VIRTUAL_ENV/bin/python" {script} "$@"'
            text = f'[ -n "$VIRTUAL_ENV" ] || exec {script} "$@"\n{inside}'
            _write_script(os.path.join(draft, name), text)
        elif others:
            os.symlink(path, os.path.join(draft, name))
    try:
        os.rename(draft, target)
    except OSError:  # another process made it meanwhile
        untrusted.discard_tree(draft)


def _interpreter_of(path: str) -> Optional[str]:
    """The Python in a script's first line; if the path is too long, pip writes a line for the shell."""
    try:
        head = untrusted.read_part(os.path.realpath(path), 0, 1024)
    except OSError:
        return None
    if not head.startswith(b"#!"):
        return None
    lines = head.decode("utf-8", "replace").split("\n")
    words = lines[0][2:].split()
    if words and words[0] == "/bin/sh" and len(lines) > 1 and lines[1].startswith("'''exec' "):
        words = [lines[1][len("'''exec' ") :].split(" ")[0].strip('"')]
    return words[0] if words and os.path.basename(words[0]).startswith("python") else None


def _write_script(path: str, line: str) -> None:
    untrusted.write_new(path, f"#!/bin/sh\n{line}\n".encode(), mode=0o755)
