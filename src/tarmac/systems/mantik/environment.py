"""Reads `Environment`: image or virtual environment, modules, variables, surrounding commands (K2-K6).

Called by the reader.
"""

import posixpath
import re
import shlex
from collections.abc import Mapping
from dataclasses import dataclass, field

from tarmac.dialects.kinds import Kind, Misfit, line, text
from tarmac.dialects.located import Items, Scalar, Table, key_text, quote
from tarmac.dialects.names import VARIABLE_NAME, reserved
from tarmac.dialects.section import Section, Value
from tarmac.model.site import Apptainer
from tarmac.model.spec import Command, Hooks
from tarmac.node.files.secrecy import is_reference, names_secret
from tarmac.systems.mantik.fields import (
    APPTAINER,
    COMMANDS,
    ENVIRONMENT,
    PYTHON,
    known_part,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class SiteEnvironment:
    """The values of `Environment`."""

    apptainer: Apptainer | None = None
    venv: str | None = None
    modules: tuple[str, ...] = ()
    variables: Mapping[str, str] = field(default_factory=dict)
    hooks: Hooks = field(default_factory=Hooks)


def read_environment(config: Section, directory: str, *, firecrest: bool) -> SiteEnvironment:
    """The environment, every problem reported; relative paths of this machine are below `directory`."""
    image = _old_image(config, directory)
    value = config.get("Environment")
    if value is None:
        return SiteEnvironment(apptainer=image)
    old, value = _split_old_variables(value)
    section = known_part(value, ENVIRONMENT)
    if section is None:
        return SiteEnvironment(apptainer=image)
    variables = section.get("Variables")
    hooks = {hook: _commands(section.get(name)) for name, hook in COMMANDS.items()}
    if firecrest:
        for name, hook in COMMANDS.items():
            found = section.get(name)
            if found is not None and hook.endswith("_login"):
                found.refuse(
                    "firecREST runs nothing on the login node",
                    f"use {name.replace('LoginNode', 'ComputeNode')}",
                )
    return SiteEnvironment(
        apptainer=_image(section, directory) or image,
        venv=_venv(section),
        modules=_modules(section.get("Modules")),
        variables=old | (_variables(variables) if variables is not None else {}),
        hooks=Hooks(**hooks),
    )


def _old_image(config: Section, directory: str) -> Apptainer | None:
    """`SingularityImage` at the top level, as in the first versions."""
    value = config.get("SingularityImage")
    if value is None:
        return None
    if isinstance(value.node, Table):
        value.warn("this is now 'Environment.Apptainer'; it is read as that")
        return _image_of(value, directory)
    value.warn("this is now 'Environment.Apptainer.Path'; it is read as that")
    read = value.read(path_of_site("the path of an image"), None)
    if read is None:
        return None
    return _local_image(read, directory, ())


def _image(section: Section, directory: str) -> Apptainer | None:
    """`Apptainer`, or its older name `Singularity`; never beside a virtual environment."""
    section.exclude(
        "Apptainer", "Singularity", reason="Apptainer is the new name of Singularity: one image is run"
    )
    value = section.get("Apptainer") or section.get("Singularity")
    if value is None:
        return None
    if (python := section.get("Python")) is not None:
        python.refuse("cannot stand beside an image", "the application runs in one environment: choose")
    if "Singularity" in section:
        value.warn("Singularity is now called Apptainer; 'apptainer' is what is run")
    if isinstance(value.node, Scalar):
        value.refuse("a mapping with 'Path' is expected", f"write Path: {quote(value.node)}")
        return None
    return _image_of(value, directory)


def _image_of(value: Value, directory: str) -> Apptainer | None:
    """The image in a mapping of `Path`, `Type` and `Options`."""
    parts = known_part(value, APPTAINER)
    if parts is None:
        return None
    if "Path" not in parts:
        parts.missing("Path", "name the image file")
    path = parts.read("Path", path_of_site("the path of an image file"), None)
    options = _options(parts.get("Options"))
    kind = (parts.read("Type", text("local or remote"), "local")).strip().lower()
    if kind not in ("local", "remote") and (field := parts.get("Type")) is not None:
        field.expected("'local' (in or beside the project) or 'remote' (on the site)")
    if path is None:
        return None
    if kind == "remote":
        if not path.startswith(("/", "$")) and (field := parts.get("Path")) is not None:
            field.refuse(
                f"the image lies on the site: its path must be absolute, not {path!r}",
                "write Type: local if it lies in the project",
            )
        return Apptainer(path=path, remote=True, options=options)
    if "$" in path and (field := parts.get("Path")) is not None:
        field.warn("a local path is read on this machine, where no variable is expanded in it")
    return _local_image(path, directory, options)


def _local_image(path: str, directory: str, options: tuple[str, ...]) -> Apptainer:
    """An image of the submitter's machine: inside the project its path stays; from outside it is uploaded."""
    inside = posixpath.normpath(path)
    if not posixpath.isabs(inside) and not inside.startswith("../"):
        return Apptainer(path=inside, options=options)
    source = posixpath.normpath(posixpath.join(directory, path))
    if source.startswith(directory.rstrip("/") + "/"):
        return Apptainer(path=posixpath.relpath(source, directory), options=options)
    return Apptainer(path=posixpath.basename(source), source=source, options=options)


def _options(value: Value | None) -> tuple[str, ...]:
    """A string, or a list of strings, split into words as a shell does."""
    if value is None:
        return ()
    items = value.items("options") if isinstance(value.node, Items) else iter([value])
    words: list[str] = []
    for item in items:
        read = item.read(text("options, as one text or a list of texts,"), "")
        if "\\$" in read or any("$" in part for part in re.findall(r"'[^']*+'", read)):
            item.warn("variables in options are expanded in quotes, too")
        if found := re.search(r"\$\([^)]*\)?|`[^`]*`?|\$\{[A-Za-z0-9_]*[^A-Za-z0-9_}][^}]*\}?", read):
            item.warn(
                f"only variables are expanded in options: {found[0]!r} stays as it is; set a "
                "variable in PreRunCommandOnComputeNode"
            )
        try:
            words += shlex.split(read)
        except ValueError:
            item.refuse("a quote in it is not closed")
    return tuple(words)


def _venv(section: Section) -> str | None:
    value = section.get("Python")
    if value is None:
        return None
    if isinstance(value.node, Table):
        parts = known_part(value, PYTHON)
        if parts is not None and "Path" not in parts:
            parts.missing("Path", "name the virtual environment")
        value = parts.get("Path") if parts is not None else None
        if value is None:
            return None
    path = value.read(path_of_site("the path of a virtual environment"), None)
    if path is None:
        return None
    trimmed = posixpath.normpath(_without_semicolon(path, value))
    if trimmed.startswith("../") or trimmed == "..":
        value.refuse(
            f"{path!r} leads out of the project",
            "a path within the project, or an absolute one of the site",
        )
    if trimmed.endswith("/bin/activate"):
        value.warn("the directory of the virtual environment is meant, without /bin/activate")
        trimmed = trimmed.removesuffix("/bin/activate")
    return trimmed


def _modules(value: Value | None) -> tuple[str, ...]:
    """A list of modules; a text is one module, or several separated by blanks."""
    if value is None:
        return ()
    if isinstance(value.node, Scalar):
        value.warn("a list is expected; the text is taken for the names of modules")
        return tuple(value.read(line("the name of a module", 255), "").split())
    return tuple(
        name
        for item in value.items("a list of modules")
        for name in _without_semicolon(item.read(_MODULE, ""), item).split()
    )


def _without_semicolon(read: str, value: Value) -> str:
    """The text without a trailing `;`."""
    trimmed = read.rstrip("; ")
    if trimmed == read or not trimmed:
        return read
    value.warn("the ';' at its end is left out: this is no line of a shell")
    return trimmed


def _variables(value: Value) -> dict[str, str]:
    """Variables by name, with their values as written."""
    variables = {}
    for key, item in value.entries("a mapping from names to values"):
        name = key.read(VARIABLE_NAME, "")
        if names_secret(name) and not (isinstance(item.node, Scalar) and is_reference(item.node.text)):
            key.refuse(
                f"{name}: secrets do not belong into a file",
                f"'tarmac secret set' keeps it: then write {name}: ${{{{ secrets.NAME }}}}",
            )
            continue
        if not isinstance(item.node, Scalar):
            item.expected("a text or number")
            continue
        found = "" if item.node.empty else item.read(text("a text or number"), "")
        if item.node.empty:
            item.warn("there is no value; it is set to nothing")
        if reserved(name):
            item.warn("where it is rehearsed, tarmac sets this variable, and its value wins")
        if expansion := _EXPANSION.search(found):
            item.warn(
                f"values are given as they stand: {expansion[0]!r} is not expanded; to have it "
                f"expanded, export {name} in PreRunCommandOnComputeNode"
            )
        variables[name] = found
    return variables


def _split_old_variables(value: Value) -> tuple[dict[str, str], Value]:
    """Variables directly in `Environment` (upper case, as in the first versions), and the other keys."""
    if not isinstance(value.node, Table):
        return {}, value
    old = [
        (key, item)
        for key, item in value.node.entries
        if _CAPITALS.fullmatch(key.text)
        and isinstance(item, Scalar)
        and not names_secret(key.text)
        and key.text.lower() not in _KEYS
    ]
    if not old:
        return {}, value
    names = ", ".join(key_text(key) for key, _ in old)
    value.warn(f"variables belong into 'Environment.Variables'; read as that: {names}")
    moved = {key.text for key, _ in old}
    rest = Table(
        entries=tuple(entry for entry in value.node.entries if entry[0].text not in moved),
        line=value.node.line,
        column=value.node.column,
    )
    listed = Value(Table(entries=tuple(old)), value.path, value.problems)
    return _variables(listed), Value(rest, value.path, value.problems)


def _commands(value: Value | None) -> tuple[Command, ...]:
    """One command, or a list of them, each run by the node's shell."""
    if value is None:
        return ()
    items = value.items("a list of commands") if isinstance(value.node, Items) else iter([value])
    return tuple(command for item in items if (command := _command(item)) is not None)


def _command(value: Value) -> Command | None:
    read = value.read(text("a command, or a list of commands,"), None)
    if read is None:
        return None
    if not read.strip():
        value.refuse("the command is empty")
        return None
    return Command(script=read.strip())


_MODULE = line("the name of a module such as Python/3.9.6", 255)
_KEYS = frozenset(name.lower() for name in ENVIRONMENT.known)
_CAPITALS = re.compile(r"[A-Z][A-Z0-9_]*", re.ASCII)
_EXPANSION = re.compile(r"\$(\w+|\{\w+\})|\$\(", re.ASCII)


def path_of_site(description: str) -> Kind[str]:
    """A path on one line; refuses `~`, which not every use of the path would expand."""

    def read(scalar: Scalar) -> str:
        found = scalar.text.strip()
        if not found or len(found.encode()) > 4096 or not found.isprintable():
            raise Misfit()
        if found.startswith("~"):
            raise Misfit(f"write $HOME{found[1:]}" if found[1:2] in ("", "/") else "write the whole path")
        return found

    return Kind(description, read)
