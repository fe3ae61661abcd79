"""Reads `Environment`: image or virtual environment, modules, variables, surrounding commands (K2-K6).

A part of the reader's table.
"""

import posixpath
import re
import shlex
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from tarmac.dialects.kinds import Kind, Misfit, line, text
from tarmac.dialects.located import Items, Scalar, Table, key_text, quote
from tarmac.dialects.names import VARIABLE_NAME, reserved
from tarmac.dialects.schema import MISSING, Alternatives, Custom, Field, Record, read_value, tuple_of
from tarmac.dialects.section import Section, Value
from tarmac.model import codec
from tarmac.model.site import Apptainer
from tarmac.model.spec import Command
from tarmac.node.files.secrecy import is_reference, names_secret
from tarmac.systems.mantik.fields import record

COMMANDS = {
    "PreRunCommandOnLoginNode": "before_login",
    "PreRunCommandOnComputeNode": "before",
    "PostRunCommandOnComputeNode": "after",
    "PostRunCommandOnLoginNode": "after_login",
}
"""The keys of commands around the application, in the order in which they run, each with its hook."""


def read_environment(value: Value, table: Record) -> Any:
    """The attributes of the spec; variables directly in it (upper case) are those of the first versions."""
    node = value.node if isinstance(value.node, Table) else Table(entries=())
    old = tuple(
        (key, item)
        for key, item in node.entries
        if _CAPITALS.fullmatch(key.text)
        and isinstance(item, Scalar)
        and not names_secret(key.text)
        and key.text.lower() not in {name.lower() for name in table.fields}
    )
    if not old:
        return read_value(value, table)
    names = ", ".join(key_text(key) for key, _ in old)
    value.warn(f"variables belong into 'Environment.Variables'; read as that: {names}")
    variables = _variables(replace(value, node=Table(entries=old)))
    rest = tuple(entry for entry in node.entries if entry not in old)
    found = read_value(replace(value, node=replace(node, entries=rest)), table)
    return {**found, "environment.variables": variables | found.get("environment.variables", {})}


def read_old_image(value: Value) -> Any:
    """`SingularityImage` at the top level, as in the first versions."""
    if isinstance(value.node, Table):
        value.warn("this is now 'Environment.Apptainer'; it is read as that")
        return read_value(value, APPTAINER)
    value.warn("this is now 'Environment.Apptainer.Path'; it is read as that")
    path = value.read(path_of_site("the path of an image"), None)
    return Apptainer(path=path) if path is not None else MISSING


def located(image: Apptainer, directory: str) -> Apptainer:
    """An image of the submitter's machine: inside the project its path stays; from outside it is uploaded."""
    inside = posixpath.normpath(image.path)
    if image.remote:
        return image
    if not posixpath.isabs(inside) and not inside.startswith("../"):
        return codec.replace(image, path=inside)
    source = posixpath.normpath(posixpath.join(directory, image.path))
    if source.startswith(directory.rstrip("/") + "/"):
        return codec.replace(image, path=posixpath.relpath(source, directory))
    return codec.replace(image, path=posixpath.basename(source), source=source)


def _check(section: Section, _found: Mapping[str, Any]) -> None:
    """One image, under one of its names, and never beside a virtual environment."""
    section.exclude(
        "Apptainer", "Singularity", reason="Apptainer is the new name of Singularity: one image is run"
    )
    if "Python" in section and ("Apptainer" in section or "Singularity" in section):
        section["Python"].refuse(
            "cannot stand beside an image", "the application runs in one environment: choose"
        )


def _check_image(section: Section, found: Mapping[str, Any]) -> None:
    path, remote = found.get("Path"), found.get("Type", False)
    if path is not None and remote and not path.startswith(("/", "$")):
        section["Path"].refuse(
            f"the image lies on the site: its path must be absolute, not {path!r}",
            "write Type: local if it lies in the project",
        )
    if path is not None and not remote and "$" in path:
        section["Path"].warn("a local path is read on this machine, where no variable is expanded in it")


def _refuse_text(value: Value) -> Any:
    value.refuse("a mapping with 'Path' is expected", f"write Path: {quote(value.node)}")
    return MISSING


def _is_remote(scalar: Scalar) -> bool:
    word = scalar.text.strip().lower()
    if word not in ("local", "remote"):
        raise Misfit()
    return word == "remote"


def _options(value: Value) -> tuple[str, ...]:
    """A string, or a list of strings, split into words as a shell does."""
    words: list[str] = []
    for item in value.items("options") if isinstance(value.node, Items) else [value]:
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


def _venv(value: Value) -> Any:
    path = value.read(path_of_site(_A_VENV), None)
    if path is None:
        return MISSING
    trimmed = posixpath.normpath(_without_semicolon(path, value))
    if trimmed.startswith("../") or trimmed == "..":
        value.refuse(
            f"{path!r} leads out of the project", "a path within the project, or an absolute one of the site"
        )
    if trimmed.endswith("/bin/activate"):
        value.warn("the directory of the virtual environment is meant, without /bin/activate")
        trimmed = trimmed.removesuffix("/bin/activate")
    return trimmed


def _modules(value: Value) -> tuple[str, ...]:
    """A list of modules; a text is one module, or several separated by blanks."""
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


def _command(value: Value) -> Any:
    script = value.read(text(_A_COMMAND), None)
    if script is None:
        return MISSING
    if not script.strip():
        value.refuse("the command is empty")
        return MISSING
    return Command(script=script.strip())


def _refuse_login(value: Value) -> Any:
    name = value.path.rpartition(".")[2].replace("LoginNode", "ComputeNode")
    value.refuse("firecREST runs nothing on the login node", f"use {name}")
    return MISSING


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


_A_COMMAND, _A_VENV = "a command, or a list of commands,", "the path of a virtual environment"
_MODULE = line("the name of a module such as Python/3.9.6", 255)
_CAPITALS = re.compile(r"[A-Z][A-Z0-9_]*", re.ASCII)
_EXPANSION = re.compile(r"\$(\w+|\{\w+\})|\$\(", re.ASCII)

_COMMANDS = tuple_of(Custom(_command), _A_COMMAND, or_one=True)
_NO_LOGIN = Custom(_refuse_login)
APPTAINER = record(
    {
        "Path": Field(
            path_of_site("the path of an image file"),
            sets="path",
            words="image",
            required="name the image file",
        ),
        "Options": Field(Custom(_options), sets="options"),
        "Type": Field(
            Kind("'local' (in or beside the project) or 'remote' (on the site)", _is_remote), sets="remote"
        ),
    },
    _check_image,
    make=Apptainer,
)
_IMAGE = Alternatives(
    "a mapping with the fields Options, Path, Type", scalar=Custom(_refuse_text), table=APPTAINER
)
PYTHON = record(
    {"Path": Field(Custom(_venv), sets="path", required="name the virtual environment")},
    make=lambda path: path,
)
_REST = {
    "Singularity": Field(
        _IMAGE,
        sets="site.apptainer",
        ignored="Singularity is now called Apptainer; 'apptainer' is what is run",
    ),
    "Apptainer": Field(_IMAGE, sets="site.apptainer"),
    "Python": Field(
        Alternatives(_A_VENV, scalar=Custom(_venv), table=PYTHON), sets="site.venv", words="venv"
    ),
    "Modules": Field(Custom(_modules), sets="environment.modules"),
    "Variables": Field(Custom(_variables), sets="environment.variables", words="env vars"),
}


def _table(*, firecrest: bool) -> Record:
    """The table of `Environment`; firecREST runs no command on the login node."""
    refused = {name: _NO_LOGIN for name in COMMANDS if firecrest and name.endswith("LoginNode")}
    commands = {
        name: Field(refused.get(name, _COMMANDS), sets=f"hooks.{hook}") for name, hook in COMMANDS.items()
    }
    return record({**commands, **_REST}, _check, make=dict)


ENVIRONMENT = {firecrest: _table(firecrest=firecrest) for firecrest in (False, True)}
"""The tables for UNICORE and for firecREST."""
