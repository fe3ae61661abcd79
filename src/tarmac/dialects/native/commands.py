"""Reads commands: a bash script whose lines are kept, or a list taken as argv. For roles, hooks and `setup`.

A step of `setup` is a command, `{git: {url: ...}}`, `{pip: [...]}` or `{apt: [...]}`.
"""

from __future__ import annotations

import posixpath
import re

from tarmac.dialects.kinds import flag, matching, text
from tarmac.dialects.located import Items, Scalar, Table
from tarmac.dialects.native.code import COMMIT, REFERENCE, URL, read_url
from tarmac.dialects.section import Fields, Section, Value, words_for
from tarmac.model.spec import (
    Checkout,
    Command,
    Hooks,
    PythonPackages,
    Repository,
    SetupCommand,
    SetupStep,
    SystemPackages,
)

COMMAND = "a script, or a list of a program and its arguments,"


def read_command(value: Value) -> Command | None:
    """The command; None, with a problem reported, if it is invalid."""
    if isinstance(value.node, Scalar):
        return _script(value)
    if not isinstance(value.node, Items) or not value.node.items:
        value.expected(COMMAND)
        return None
    argv = tuple(_argument(item) for item in value.items(COMMAND))
    if not argv[0]:
        value.refuse("the name of the program is empty")
    for argument in argv if not _is_shell(argv) else ():
        if found := _EXPANSION.search(argument):
            value.warn(
                f"no shell reads a command given as a list: {found[0]!r} reaches the program "
                "as it is; write the command as one text to have it expanded"
            )
            break
    return Command(argv=argv)


def warn_of_fixed_numbers(value: Value) -> None:
    """Warn if a command that is placed by its slots fixes the number of nodes or processes itself."""
    words = value.node.items if isinstance(value.node, Items) else (value.node,)
    for word in words:
        found = _FIXED.search(word.text) if isinstance(word, Scalar) else None
        if found is not None:
            variable = "$NNODES" if "nnodes" in found[0] else "$N_PROC"
            value.warn(f"{found[0]!r} is fixed; {variable} follows what the run is given")


def refuse_launcher_programs(value: Value, launcher: str) -> None:
    """Refuse a command that starts the processes of a node itself: it would run once for each of them."""
    words = value.node.items if isinstance(value.node, Items) else (value.node,)
    line = " ".join(word.text for word in words if isinstance(word, Scalar))
    found = _PROGRAM.search(line)
    if found is not None:
        value.refuse(
            f"launcher: {launcher} starts this command once for each slot, and {found[1]!r} in it would each "
            "time start the processes of a whole node",
            f"take {found[1]!r} out of the command, or 'launcher' out of the file",
        )


_PROGRAM = re.compile(
    r"(?:^|[\s;&|(/])(torchrun|accelerate launch|deepspeed|horovodrun|mpirun|mpiexec"
    r"|python3? -m torch\.distributed\.(?:run|launch)|python3? -m determined\.launch\.\w+)(?:\s|$)",
    re.ASCII,
)
_FIXED = re.compile(r"--(nnodes|nproc[-_]per[-_]node)[= ][0-9]+", re.ASCII)
_EXPANSION = re.compile(r"\$(\w+|\{\w+\})", re.ASCII)


def _is_shell(argv: tuple[str, ...]) -> bool:
    """Whether the list passes a text to a shell, which expands it."""
    return (
        len(argv) > 2
        and posixpath.basename(argv[0]) in _SHELLS
        and _COMMAND_FLAG.fullmatch(argv[1]) is not None
    )


_SHELLS = frozenset({"ash", "bash", "dash", "ksh", "sh", "zsh"})
_COMMAND_FLAG = re.compile(r"-[a-z]*c", re.ASCII)


def _script(value: Value) -> Command | None:
    script = value.read(text(COMMAND), None)
    if script is None:
        return None
    if not script.strip():
        value.refuse("the command is empty")
        return None
    return Command(script=script)


def _argument(value: Value) -> str:
    if isinstance(value.node, Scalar) and value.node.empty:
        value.refuse("an argument is missing", "write '' for an empty one")
        return ""
    return value.read(text("a text or number"), "")


HOOKS = Fields(
    known=frozenset({"before_login", "before", "after", "after_login"}),
    synonyms=words_for(before="pre_run pre", after="post_run post"),
)


def read_hooks(value: Value | None) -> Hooks:
    """The commands of each hook."""
    section = value.section(HOOKS) if value is not None else None
    if section is None:
        return Hooks()

    def commands(name: str) -> tuple[Command, ...]:
        hook = section.get(name)
        return () if hook is None else _commands(hook)

    return Hooks(
        before_login=commands("before_login"),
        before=commands("before"),
        after=commands("after"),
        after_login=commands("after_login"),
    )


def _commands(value: Value) -> tuple[Command, ...]:
    """One script, or a list of commands."""
    if isinstance(value.node, Scalar) or not isinstance(value.node, Items):
        command = read_command(value)
        return () if command is None else (command,)
    found = [read_command(item) for item in value.items("a script, or a list of commands,")]
    return tuple(command for command in found if command is not None)


_STEP = "a command, or one of {git: ...}, {pip: [...]}, {apt: [...]},"
_STEPS = "a script, or a list of steps,"

_GIT = Fields(known=frozenset({"git"}), synonyms=words_for(git="git_repo checkout clone"))
_PIP = Fields(
    known=frozenset({"pip", "upgrade"}),
    synonyms=words_for(pip="pip_packages packages requirements python"),
)
_APT = Fields(known=frozenset({"apt"}), synonyms={"apt_packages": "apt", "apt-get": "apt"})
_REPOSITORY = Fields(
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

_PLACE = matching(
    r"(?!(.*/)?\.\.?(/|$))(?!-)[A-Za-z0-9._@+-]+(/[A-Za-z0-9._@+-]+)*",
    "a path below the working directory, such as 'library',",
)
_PACKAGE = matching(
    r"[a-z0-9][a-z0-9+.-]*(:[a-z0-9]+)?(=[A-Za-z0-9.+:~-]+)?",
    "the name of a package of the distribution, perhaps with '=VERSION',",
)
_REQUIREMENT = text("a requirement as pip takes it")


def read_setup(value: Value | None) -> tuple[SetupStep, ...]:
    """The steps that prepare a node, in order: one script, or a list of steps."""
    if value is None:
        return ()
    if isinstance(value.node, Scalar):
        command = _setup_command(value)
        return (command,) if command is not None else ()
    steps = [_step(item) for item in value.items(_STEPS)]
    return tuple(step for step in steps if step is not None)


def _default_path(url: str) -> str:
    """The default path of a repository: as with git, the last part of its URL."""
    last = url.rstrip("/").rpartition("/")[2].rpartition(":")[2]
    return last.removesuffix(".git") or "repository"


def _step(value: Value) -> SetupStep | None:
    if not isinstance(value.node, Table):
        return _setup_command(value)
    keys = {key.text for key, _ in value.node.entries}
    for fields, read in ((_GIT, _checkout), (_PIP, _python), (_APT, _system)):
        if keys & (fields.known | fields.synonyms.keys()):
            section = value.section(fields)
            return read(section) if section is not None else None
    value.expected(_STEP)
    return None


def _setup_command(value: Value) -> SetupCommand | None:
    command = read_command(value)
    return SetupCommand(script=command.script, argv=command.argv) if command is not None else None


def _checkout(step: Section) -> Checkout | None:
    value = step.get("git")
    if value is None:
        step.missing("git", "a mapping with the URL of a repository")
        return None
    if isinstance(value.node, Scalar):
        url = read_url(value)
        return Checkout(repository=Repository(url=url), path=_default_path(url)) if url is not None else None
    section = value.section(_REPOSITORY)
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
    path = section.read("path", _PLACE, None)
    install = section.read("install", text("what follows 'pip install', such as '.' or '-e .[all]',"), None)
    if url is None:
        return None
    repository = Repository(url=url, branch=branch, commit=commit, submodules=submodules)
    return Checkout(repository=repository, path=path or _default_path(url), install=install)


def _python(step: Section) -> PythonPackages | None:
    value = step.get("pip")
    upgrade = step.read("upgrade", flag(), False)
    if value is None:
        step.missing("pip", "a list of requirements")
        return None
    found = value.read_list(_REQUIREMENT, "a list of requirements", or_one=True)
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
    packages = value.read_list(_PACKAGE, "a list of packages", or_one=True)
    return SystemPackages(packages=packages) if packages else None
