"""Commands: a bash script whose lines are kept, or a list taken as argv. For roles, hooks and `setup`.

A step of `setup` is a command, `{git: {url: ...}}`, `{pip: [...]}` or `{apt: [...]}`.
"""

import posixpath
import re
from collections.abc import Sequence
from typing import Any

from tarmac.dialects import schema
from tarmac.dialects.kinds import flag, matching, text
from tarmac.dialects.located import Items, Scalar, Table
from tarmac.dialects.native.code import GIT_URL, REVISION, URL, read_url
from tarmac.dialects.native.environment import EXPANSION
from tarmac.dialects.section import Value
from tarmac.model import spec

_COMMAND = "a script, or a list of a program and its arguments,"


def read_command(value: Value) -> spec.Command | None:
    """The command; None, with a problem reported, if it is invalid."""
    if isinstance(value.node, Scalar):
        return _script(value)
    if not isinstance(value.node, Items) or not value.node.items:
        value.expected(_COMMAND)
        return None
    argv = tuple(_argument(item) for item in value.items(_COMMAND))
    if not argv[0]:
        value.refuse("the name of the program is empty")
    for argument in argv if not is_shell(argv) else ():
        if found := EXPANSION.search(argument):
            value.warn(
                f"no shell reads a command given as a list: {found[0]!r} reaches the program "
                "as it is; write the command as one text to have it expanded"
            )
            break
    return spec.Command(argv=argv)


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
    r"|python3? -m torch\.distributed\.(?:run|launch)"
    r"|python3? -m \w+\.launch\.(?:torch_distributed|deepspeed|(?:auto)?horovod|wrap_rank))(?:\s|$)",
    re.ASCII,
)
_FIXED = re.compile(r"--(nnodes|nproc[-_]per[-_]node)[= ][0-9]+", re.ASCII)


def is_shell(argv: Sequence[str]) -> bool:
    """Whether the list passes a text to a shell, which expands it."""
    shell = posixpath.basename(argv[0]) in _SHELLS
    return shell and len(argv) > 1 and _COMMAND_FLAG.fullmatch(argv[1]) is not None


_SHELLS = frozenset({"ash", "bash", "dash", "ksh", "sh", "zsh"})
_COMMAND_FLAG = re.compile(r"-[a-z]*c", re.ASCII)


def _script(value: Value) -> spec.Command | None:
    script = value.read(text(_COMMAND), None)
    if script is None:
        return None
    if not script.strip():
        value.refuse("the command is empty")
        return None
    return spec.Command(script=script)


def _argument(value: Value) -> str:
    if isinstance(value.node, Scalar) and value.node.empty:
        value.refuse("an argument is missing", "write '' for an empty one")
        return ""
    return value.read(text("a text or number"), "")


_STEP = "a command, or one of {git: ...}, {pip: [...]}, {apt: [...]},"

_PLACE = matching(
    r"(?!(.*/)?\.\.?(/|$))(?!-)[A-Za-z0-9._@+-]+(/[A-Za-z0-9._@+-]+)*",
    "a path below the working directory, such as 'library',",
)
_PACKAGE = matching(
    r"[a-z0-9][a-z0-9+.-]*(:[a-z0-9]+)?(=[A-Za-z0-9.+:~-]+)?",
    "the name of a package of the distribution, perhaps with '=VERSION',",
)
_REQUIREMENT = text("a requirement as pip takes it")


def _default_path(url: str) -> str:
    """The default path of a repository: as with git, the last part of its URL."""
    last = url.rstrip("/").rpartition("/")[2].rpartition(":")[2]
    return last.removesuffix(".git") or "repository"


def _step(value: Value) -> Any:
    """A step; MISSING if it is invalid, with a problem reported."""
    if not isinstance(value.node, Table):
        command = read_command(value)
        return (
            spec.SetupCommand(script=command.script, argv=command.argv)
            if command is not None
            else schema.MISSING
        )
    keys = {key.text for key, _ in value.node.entries}
    for shape in (_GIT, _PIP, _APT):
        fields = schema.fields_of(shape)
        if keys & (fields.known | fields.synonyms.keys()):
            return schema.read_value(value, shape)
    value.expected(_STEP)
    return schema.MISSING


def written_command(command: spec.Command) -> str | list[str]:
    """The script, or the arguments as a list."""
    return command.script if command.script is not None else list(command.argv or ())


def _written_step(step: spec.SetupStep) -> Any:
    match step:
        case spec.Command():
            return written_command(step)
        case spec.Checkout():
            source = schema.write_record(step.repository, _REVISION)
            return {"git": {"url": step.repository.url, **source, **schema.write_record(step, _PLACED)}}
        case spec.PythonPackages():
            return schema.write_record(step, _PIP)
        case spec.SystemPackages():
            return schema.write_record(step, _APT)


def _checkout(value: Value) -> Any:
    if isinstance(value.node, Scalar):
        url = read_url(value)
        return _checked_out(url) if url is not None else schema.MISSING
    return schema.read_value(value, _CHECKOUT)


def _checked_out(
    url: str, path: str | None = None, install: str | None = None, **revision: Any
) -> spec.Checkout:
    repository = spec.Repository(url=url, **revision)
    return spec.Checkout(repository=repository, path=path or _default_path(url), install=install)


def _requirements(value: Value) -> Any:
    found = value.read_list(_REQUIREMENT, "a list of requirements", or_one=True)
    requirements = tuple(item for item in found if item.strip())
    if not requirements:
        value.expected("a list of requirements")
    return requirements or schema.MISSING


COMMAND = schema.Custom(lambda value: read_command(value) or schema.MISSING, written_command)
_HOOK = schema.tuple_of(COMMAND, "a script, or a list of commands,", or_one=True)
HOOKS = schema.record(
    {
        "before_login": _HOOK,
        "before": schema.Field(_HOOK, words="pre_run pre"),
        "after": schema.Field(_HOOK, words="post_run post"),
        "after_login": _HOOK,
    },
    make=spec.Hooks,
)
_REVISION = schema.record(REVISION)
_PLACED = schema.record(
    {
        "path": schema.Field(_PLACE, words="directory"),
        "install": schema.Field(
            text("what follows 'pip install', such as '.' or '-e .[all]',"), words="pip_install"
        ),
    }
)
_CHECKOUT = schema.record(
    {"url": schema.Field(GIT_URL, words="git repo", required=URL), **REVISION, **_PLACED.fields},
    make=_checked_out,
)
_GIT = schema.record(
    {
        "git": schema.Field(
            schema.Custom(_checkout),
            words="git_repo checkout clone",
            required="a mapping with the URL of a repository",
        )
    },
    make=lambda git: git,
)
_PIP = schema.record(
    {
        "pip": schema.Field(
            schema.Custom(_requirements),
            sets="requirements",
            words="pip_packages packages requirements python",
            required="a list of requirements",
        ),
        "upgrade": flag(),
    },
    make=spec.PythonPackages,
)
_APT = schema.record(
    {
        "apt": schema.Field(
            schema.tuple_of(_PACKAGE, "a list of packages", or_one=True),
            sets="packages",
            words="apt_packages apt-get",
            required="a list of packages",
        )
    },
    make=lambda packages: spec.SystemPackages(packages=packages) if packages else schema.MISSING,
)
SETUP = schema.tuple_of(schema.Custom(_step, _written_step), "a script, or a list of steps,", or_one=True)
"""The steps that prepare a node, in order."""
