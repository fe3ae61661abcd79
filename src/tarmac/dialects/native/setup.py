"""Reads `setup`: the steps that prepare a node. Called by the reader.

A step is a command, `{git: {url: ...}}`, `{pip: [...]}` or `{apt: [...]}`.
"""

from __future__ import annotations

from tarmac.dialects.kinds import flag, matching, text
from tarmac.dialects.located import Scalar, Table
from tarmac.dialects.native.code import COMMIT, REFERENCE, URL, read_url
from tarmac.dialects.native.commands import read_command
from tarmac.dialects.section import Fields, Section, Value, words_for
from tarmac.model.spec import (
    Checkout,
    PythonPackages,
    Repository,
    SetupCommand,
    SetupStep,
    SystemPackages,
)

STEP = "a command, or one of {git: ...}, {pip: [...]}, {apt: [...]},"
STEPS = "a script, or a list of steps,"

GIT = Fields(known=frozenset({"git"}), synonyms=words_for(git="git_repo checkout clone"))
PIP = Fields(
    known=frozenset({"pip", "upgrade"}),
    synonyms=words_for(pip="pip_packages packages requirements python"),
)
APT = Fields(known=frozenset({"apt"}), synonyms={"apt_packages": "apt", "apt-get": "apt"})
REPOSITORY = Fields(
    known=frozenset({"url", "branch", "commit", "submodules", "path", "install"}),
    synonyms=words_for(
        url="git repo",
        branch="tag",
        commit="rev",
        path="directory",
        install="pip_install",
        submodules="recursive",
    ),
)

PLACE = matching(
    r"(?!(.*/)?\.\.?(/|$))(?!-)[A-Za-z0-9._@+-]+(/[A-Za-z0-9._@+-]+)*",
    "a path below the working directory, such as 'library',",
)
PACKAGE = matching(
    r"[a-z0-9][a-z0-9+.-]*(:[a-z0-9]+)?(=[A-Za-z0-9.+:~-]+)?",
    "the name of a package of the distribution, perhaps with '=VERSION',",
)
REQUIREMENT = text("a requirement as pip takes it")


def read_setup(value: Value) -> tuple[SetupStep, ...]:
    """The steps that prepare a node, in order: one script, or a list of steps."""
    if isinstance(value.node, Scalar):
        command = _command(value)
        return (command,) if command is not None else ()
    steps = [_step(item) for item in value.items(STEPS)]
    return tuple(step for step in steps if step is not None)


def default_path(url: str) -> str:
    """The default path of a repository: as with git, the last part of its URL."""
    last = url.rstrip("/").rpartition("/")[2].rpartition(":")[2]
    return last.removesuffix(".git") or "repository"


def _step(value: Value) -> SetupStep | None:
    if not isinstance(value.node, Table):
        return _command(value)
    keys = {key.text for key, _ in value.node.entries}
    for fields, read in ((GIT, _checkout), (PIP, _python), (APT, _system)):
        if keys & (fields.known | fields.synonyms.keys()):
            section = value.section(fields)
            return read(section) if section is not None else None
    value.expected(STEP)
    return None


def _command(value: Value) -> SetupCommand | None:
    command = read_command(value)
    return SetupCommand(script=command.script, argv=command.argv) if command is not None else None


def _checkout(step: Section) -> Checkout | None:
    value = step.get("git")
    if value is None:
        step.missing("git", "a mapping with the URL of a repository")
        return None
    if isinstance(value.node, Scalar):
        url = read_url(value)
        return Checkout(repository=Repository(url=url), path=default_path(url)) if url is not None else None
    section = value.section(REPOSITORY)
    return _described(section) if section is not None else None


def _described(section: Section) -> Checkout | None:
    value = section.get("url")
    if value is None:
        section.missing("url", URL)
        return None
    url = read_url(value)
    branch = section.read("branch", REFERENCE, None)
    commit = section.read("commit", COMMIT, None)
    submodules = section.read("submodules", flag(), False)
    path = section.read("path", PLACE, None)
    install = section.read("install", text("what follows 'pip install', such as '.' or '-e .[all]',"), None)
    if url is None:
        return None
    repository = Repository(url=url, branch=branch, commit=commit, submodules=submodules)
    return Checkout(repository=repository, path=path or default_path(url), install=install)


def _python(step: Section) -> PythonPackages | None:
    value = step.get("pip")
    upgrade = step.read("upgrade", flag(), False)
    if value is None:
        step.missing("pip", "a list of requirements")
        return None
    found = value.read_list(REQUIREMENT, "a list of requirements", or_one=True)
    requirements = tuple(item for item in found if item.strip())
    if not requirements:
        value.expected("a list of requirements")
        return None
    return PythonPackages(requirements=requirements, upgrade=upgrade)


def _system(step: Section) -> SystemPackages | None:
    value = step.get("apt")
    if value is None:
        step.missing("apt", "a list of packages")
        return None
    packages = value.read_list(PACKAGE, "a list of packages", or_one=True)
    return SystemPackages(packages=packages) if packages else None
