"""The Python of a run's commands, and the facts about it. Called by `layers`.

A query costs the start of an interpreter, so its result is stored beside the environments made for it.
"""

from __future__ import annotations

import json
import os
from typing import Any, Mapping, NamedTuple, Optional

from tarmac.node.files import untrusted
from tarmac.node.files.codestore import digest
from tarmac.node.setup.setupwork import SetupWork, StepFailed

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


def find(work: SetupWork, env: Mapping[str, str]) -> Optional[str]:
    """The Python that commands in this environment find; None if there is none."""
    if work.run.container is not None:  # only the container's shell knows its paths
        try:
            return (work.ask(["sh", "-c", _FIND], env=env) or "").strip() or None
        except StepFailed:
            return None
    for place in os.get_exec_path(dict(env)):
        for name in _NAMES:
            path = os.path.join(place, name)
            if os.path.isfile(path) and os.access(path, os.X_OK):
                return os.path.abspath(path)
    return None


def ask(work: SetupWork, path: str, *, env: Mapping[str, str], root: str) -> Interpreter:
    """The facts about the Python at `path`; `root` is the directory of stored results. Raises StepFailed."""
    cache = os.path.join(root, f"python-{_mark(path, env)}.json")
    answer = _read(cache)
    if answer is None:
        quiet = {name: value for name, value in env.items() if name not in ("PYTHONPATH", "PYTHONHOME")}
        answer = _parsed(work.ask([path, "-c", _QUESTION], env=quiet) or "")
        if answer is None:
            raise StepFailed(f"{path} does not run as Python")
        draft = f"{cache}.{os.urandom(6).hex()}"  # a pid is local to a namespace
        untrusted.write_new(draft, json.dumps(answer._asdict()).encode())
        os.replace(draft, cache)
    return answer


def _mark(path: str, env: Mapping[str, str]) -> str:
    """A name for the result of this query to this program, until the program changes."""
    config = os.path.join(os.path.dirname(os.path.dirname(path)), "pyvenv.cfg")
    real = os.path.realpath(path)
    facts = [path, real, _changed_ns(real), _changed_ns(config), env.get("HOME"), env.get("PYTHONNOUSERSITE")]
    facts.append(env.get("PYTHONUSERBASE"))
    return digest(json.dumps([_QUESTION, facts]))[:32]


def _read(path: str) -> Optional[Interpreter]:
    try:
        with open(path, encoding="utf-8") as file:
            return _parsed(file.read())
    except OSError:
        return None


def _parsed(printed: str) -> Optional[Interpreter]:
    try:
        fields = json.loads(printed.strip().rpartition("\n")[2])
        return Interpreter(**{**fields, "sites": tuple(fields["sites"])})
    except (ValueError, TypeError, KeyError):
        return None


def _changed_ns(path: str) -> int:
    try:
        return os.stat(path).st_mtime_ns
    except OSError:
        return 0
