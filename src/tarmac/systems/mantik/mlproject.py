"""Reads an MLflow project file: the requested entry point, as one command for a shell (K10).

Called by the reader, with or without the file beside the configuration; without it, any script of the project
is an entry point, as in MLflow. Values are quoted for the shell before they are put into the command.
"""

import posixpath
import re
import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from string import Formatter
from typing import Any

from tarmac.dialects import schema
from tarmac.dialects.kinds import text
from tarmac.dialects.located import Problems, Scalar, key_text, on_line
from tarmac.dialects.section import Section, Value
from tarmac.dialects.yaml_tree import compose
from tarmac.model.errors import nearest
from tarmac.systems.mantik.fields import record

DEFAULT_ENTRY_POINT = "main"

_TYPES = ("string", "float", "path", "uri")
_OTHER_TYPES = frozenset(
    {"str", "text", "int", "integer", "number", "double", "bool", "boolean", "list", "dict"}
)
"""Types of other tools: MLflow silently takes their values as text as well."""

_CONTINUED = re.compile(r"(?<!\\)((?:\\\\)*)\\\r?\n")
_SCRIPTS = {".py": "python", ".sh": "bash"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Project:
    """The project's name, and the command of the entry point (None: a problem is reported)."""

    name: str | None
    command: str | None


def read_project(
    source: str | None, *, entry_point: str | None, parameters: Mapping[str, str], problems: Problems
) -> Project:
    """The project in the text of its file, which may be None; problems carry that file's name."""
    name: str | None = None
    listed: dict[str, Value] = {}
    if source is not None:
        tree = compose(source, problems, lenient=True)
        found = schema.read_value(Value(tree, "", problems), PROJECT) if tree is not None else schema.MISSING
        if found is schema.MISSING:
            return Project(name=None, command=None)
        name, listed = found.get("name"), found.get("entry_points", {})
    entry = entry_point or DEFAULT_ENTRY_POINT
    if entry in listed:
        return Project(name=name, command=_command(listed[entry], entry, parameters))
    command = _script(entry, parameters)
    if command is None and not problems:
        _refuse_entry_point(entry, listed, problems, has_file=source is not None)
    return Project(name=name, command=command)


def _check(section: Section, _found: Mapping[str, Any]) -> None:
    environments = [key for key in ("python_env", "conda_env", "docker_env") if key in section]
    if len(environments) > 1:
        section.refuse(f"only one environment is allowed, not {' and '.join(environments)}")
    if environments:
        _warn(
            section[environments[0]],
            "no environment is made from this; 'Environment' of the configuration "
            "says in what the project runs",
        )


def _script(entry: str, parameters: Mapping[str, str]) -> str | None:
    """The command of a script of the project; None if the name is not that of a script."""
    program = _SCRIPTS.get(posixpath.splitext(entry)[1])
    inside = posixpath.normpath(entry)
    if program is None or posixpath.isabs(inside) or inside.startswith("../"):
        return None
    return f"{program} {shlex.quote(inside)}{_further(parameters)}"


def _refuse_entry_point(
    entry: str, listed: Mapping[str, Value], problems: Problems, *, has_file: bool
) -> None:
    scripts = "or a script of the project, as in --entry-point train.py"
    if not has_file:
        problems.add(
            None,
            f"nothing says what to run: there is no MLproject file with an entry point {entry!r}",
            f"add one beside this file, {scripts}",
        )
        return
    near = nearest(entry, listed)
    there = ", ".join(map(_key_text, sorted(listed))) or "none"
    known = f"did you mean {near!r}?" if near else f"there are: {there}"
    problems.add(None, f"there is no entry point {entry!r}", f"{known}; {scripts}")


def _key_text(name: str) -> str:
    return key_text(Scalar(text=name))


def _command(value: Value, name: str, parameters: Mapping[str, str]) -> str | None:
    section = schema.section_of(value, ENTRY_POINT)
    found = schema.read_fields(section, ENTRY_POINT) if section is not None else {}
    defaults: dict[str, str | None] = found.get("parameters", {})
    if section is None or "command" not in found:
        return None
    values = {key: parameters.get(key, default) for key, default in defaults.items()}
    missing = [key for key, given in values.items() if given is None]
    if missing:
        section.problems.add(
            None,
            f"No value given for missing parameters: {', '.join(map(repr, missing))}",
            f"give them with the submission: -P {_key_text(missing[0])}=...",
        )
    filled = _filled(
        found["command"], {key: given or "" for key, given in values.items()}, section["command"]
    )
    if filled is None:
        return None
    if not filled.strip():
        section["command"].refuse(f"the command of entry point {name!r} is empty")
        return None
    rest = {key: given for key, given in parameters.items() if key not in defaults}
    return f"{filled.strip()}{_further(rest)}"


def _type(value: Value) -> None:
    """Read the type of a parameter, which only a warning depends on."""
    written = value.read(text("a type"), "string")
    if written not in _TYPES and written.partition("[")[0].strip().lower() not in _OTHER_TYPES:
        _warn(value, f"types are {', '.join(_TYPES)}; values of this one are taken as text")


def _filled(template: str, values: Mapping[str, str], command: Value) -> str | None:
    """The command with values in place of parameter names; None, with a problem reported, if that fails."""
    quoted = re.findall(r"\"[^\"]*+\"|'[^']*+'", template)
    if found := next((part for part in quoted if re.search(r"\{\w+\}", part)), None):
        _warn(command, f"values are quoted already: take the quotes away: {found[:60]}")
    try:
        # Each line break, with or without a backslash before it, becomes a blank.
        line = " ".join(_CONTINUED.sub(r"\1 ", template).splitlines())
        pieces = list(Formatter().parse(line))
    except ValueError:
        command.refuse(
            "a single brace in it belongs to no parameter",
            "braces that are meant are written twice: {{ and }}",
        )
        return None
    filled, wrong, used = list[str](), False, set[str]()
    for literal, name, spec, conversion in pieces:
        filled.append(literal)
        if name is None:
            continue
        if name in values and not spec and not conversion:
            used.add(name)
            filled.append(shlex.quote(values[name]))
            continue
        wrong = True
        placed = name + (f"!{conversion}" if conversion else "") + (f":{spec}" if spec else "")
        if literal.endswith("$"):
            written, hint = f"${{{placed}}}", f"for a variable of the environment write ${{{{{placed}}}}}"
        else:
            written, near = f"{{{placed}}}", nearest(placed, values)
            known = ", ".join(map(_key_text, values)) or "none"
            hint = f"did you mean {{{near}}}?" if near else f"parameters: {known}"
        command.refuse(f"{written[:80]!r} names no parameter of the entry point", hint)
    for name in sorted(values.keys() - used):
        _warn(command, f"the parameter {name!r} has no place in the command")
    return "".join(filled) if not wrong else None


def _further(parameters: Mapping[str, str]) -> str:
    """Parameters that the entry point does not declare, as options at the end of its command."""
    return "".join(f" {shlex.quote(f'--{name}')} {shlex.quote(value)}" for name, value in parameters.items())


def _warn(value: Value, text: str) -> None:
    value.problems.warn(None, f"MLproject: {on_line(value.node)}{value.path}: {text}")


_FREE_TEXTS = frozenset({"description"})
PARAMETER = record(
    {"type": schema.Field(schema.Custom(_type), sets=None), "default": text("a text or number")},
    silent=_FREE_TEXTS,
    make=lambda default=None: default,
)
"""The default of a parameter; None: a value is required."""

ENTRY_POINT = record(
    {
        "parameters": schema.MapOf(
            schema.Alternatives("a type", scalar=schema.Custom(_type), table=PARAMETER),
            "a mapping from names to parameters",
        ),
        "command": schema.Field(text("a command"), words="cmd", required="say what the entry point runs"),
    },
    silent=_FREE_TEXTS,
)
PROJECT = record(
    {
        "name": text("the name of the project"),
        **dict.fromkeys(("python_env", "conda_env", "docker_env"), schema.FREE),
        "entry_points": schema.Field(
            schema.MapOf(schema.AS_IT_IS, "a mapping from names to entry points"),
            words="entrypoints entrypoint entry_point",
        ),
    },
    _check,
    silent=_FREE_TEXTS,
)
