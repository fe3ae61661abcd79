"""Installs packages: of Python, into a shared environment if possible, and of the node's distribution.

Called by `hooks.setup`.

pip is the ordinary one, with the run's own variables (PIP_INDEX_URL and its like). The result of equal
requirements is stored and reused; packages of one working directory go into the attempt's own environment.
"""

from __future__ import annotations

import os
import re
import shlex
import time
from typing import Any, Mapping, Optional, Sequence

from tarmac.node.attempt.steps import AptStep
from tarmac.node.files.gitrules import without_secrets
from tarmac.node.setup import requirements
from tarmac.node.setup.layers import Layers, bin_of, python_of
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
    words = requirements.within_environment(arguments)
    if len(words) < len(arguments):
        work.say("(--user is left out: this run has an environment of its own)")
    env = _environment(work.env())
    found = requirements.examine(words, directory)
    shared = found.shared if source is None else not _editable(words)
    if layers.private or not shared:
        _pip(work, layers, layers.own, words, env=env, directory=directory)
        return
    age = int(time.time() // FRESH_S) if found.moving else None
    key = [words, found.files, age, list(source or ()), sorted(_settings(env).items())]

    def fill(place: str) -> None:
        _pip(work, layers, place, words, env=env, directory=directory)

    if not layers.share(key, fill):
        work.say("(installed before by a run that asked the same: used again)")


def _pip(
    work: SetupWork,
    layers: Layers,
    place: str,
    arguments: Sequence[str],
    *,
    env: Mapping[str, str],
    directory: str,
) -> None:
    python = python_of(place)
    inside = {**env, "VIRTUAL_ENV": place, "PATH": f"{bin_of(place)}:{env.get('PATH', os.defpath)}"}
    if not _has_pip(work, layers, python, inside):
        work.do([python, "-m", "ensurepip", "--default-pip"], env=inside, directory=directory)
    work.do([python, "-m", "pip", "install", *arguments], env=inside, directory=directory)


def _has_pip(work: SetupWork, layers: Layers, python: str, env: Mapping[str, str]) -> bool:
    if work.run.container is not None:
        return work.ask([python, "-m", "pip", "--version"], env=env) is not None
    return any(os.path.isdir(os.path.join(site, "pip")) for site in layers.python.sites)


def _environment(env: Mapping[str, str]) -> dict[str, str]:
    """The environment of pip: without prompts, and only with the given target."""
    variables = {name: value for name, value in env.items() if name not in _ELSEWHERE}
    return {
        "PIP_DISABLE_PIP_VERSION_CHECK": "1",
        "PIP_ROOT_USER_ACTION": "ignore",
        **variables,
        "PIP_NO_INPUT": "1",
    }


def _settings(env: Mapping[str, str]) -> dict[str, str]:
    """The part of the environment that determines pip's result."""
    return {name: value for name, value in env.items() if name.startswith("PIP_")}


def _editable(arguments: Sequence[str]) -> bool:
    return any(
        word in ("-e", "--editable") or word.startswith(("-e", "--editable=")) for word in arguments
    ) or any(word.startswith("-") and word.startswith(("--target", "--prefix", "-t")) for word in arguments)


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
