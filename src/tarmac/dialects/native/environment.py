"""Reads the environment of the workers: variables, virtual environment, labels, and the policy of a pause."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Mapping
from enum import StrEnum

from tarmac.dialects import quantities
from tarmac.dialects.kinds import Kind, Misfit, choice, matching, text
from tarmac.dialects.located import Scalar
from tarmac.dialects.names import LABEL_NAME, LABEL_VALUE, VARIABLE_NAME, reserved
from tarmac.dialects.native.fields import ENVIRONMENT, PAUSE
from tarmac.dialects.section import Section, Value
from tarmac.model.spec import DEFAULT_GRACE_S, Environment, PausePolicy


class Pull(StrEnum):
    """When an image's registry is asked for the image."""

    MISSING = "missing"
    ALWAYS = "always"


class PauseSignal(StrEnum):
    """Signals that can ask a worker to exit."""

    SIGTERM = "SIGTERM"
    SIGINT = "SIGINT"
    SIGHUP = "SIGHUP"
    SIGQUIT = "SIGQUIT"
    SIGUSR1 = "SIGUSR1"
    SIGUSR2 = "SIGUSR2"
    NONE = "none"


def read_environment(run: Section, directory: str) -> Environment:
    """`environment`, with `env` as the short form of its variables."""
    variables: dict[str, str] = {}
    venv: str | None = None
    image: str | None = None
    pull = Pull.MISSING
    shared_memory_bytes: int | None = None
    modules: tuple[str, ...] = ()
    full = run.get("environment")
    if full is not None and (section := full.section(ENVIRONMENT)) is not None:
        venv = section.read("venv", path_from(directory), None)
        image = section.read("image", IMAGE, None)
        pull = section.read("pull", choice(Pull), Pull.MISSING)
        shared_memory_bytes = section.read("shared_memory", quantities.size_bytes(), None)
        modules = section.read_list("modules", MODULE, "a list of modules", or_one=True)
        if (listed := section.get("variables")) is not None:
            variables = read_variables(listed)
    if (short := run.get("env")) is not None:
        added = read_variables(short)
        for name in variables.keys() & added.keys():
            short.refuse(f"{name} is set here and in environment.variables")
        variables |= added
    return Environment(
        variables=variables,
        venv=venv,
        image=image,
        pull_always=pull is Pull.ALWAYS,
        shared_memory_bytes=shared_memory_bytes,
        modules=modules,
    )


def read_variables(value: Value) -> dict[str, str]:
    """Variables by name, with their values as written."""
    variables = {}
    for key, item in value.entries("a mapping from names to values"):
        name = key.read(VARIABLE_NAME, "")
        if reserved(name):
            key.refuse(f"{name} is set by tarmac itself for every worker", "take the line out")
        variables[name] = _plain_text(item, text("a text or number"))
        if found := _EXPANSION.search(variables[name]):
            item.warn(f"no shell reads this value: {found[0]!r} stays as it is")
    return variables


def read_labels(value: Value | None) -> Mapping[str, str]:
    """Labels by name."""
    labels = {}
    for key, item in value.entries("a mapping from names to values") if value is not None else ():
        labels[key.read(LABEL_NAME, "")] = _plain_text(item, LABEL_VALUE)
    return labels


def read_pause(run: Section) -> PausePolicy:
    """The pause policy, with its defaults."""
    value = run.get("pause")
    section = value.section(PAUSE) if value is not None else None
    if section is None:
        return PausePolicy()
    signal = section.read("signal", choice(PauseSignal), PauseSignal.SIGTERM)
    return PausePolicy(
        signal=None if signal is PauseSignal.NONE else signal.value,
        grace_s=section.read("grace", quantities.duration_s(minimum_s=0), DEFAULT_GRACE_S),
    )


def path_from(directory: str) -> Kind[str]:
    """A path of the submitter's machine; relative paths start at the run file's directory."""

    def read(scalar: Scalar) -> str:
        path = scalar.text
        if found := _EXPANSION.search(path) or re.match("~", path):
            raise Misfit(
                f"{found[0]!r} is not expanded: write the whole path, or one relative to the run file"
            )
        if not path or len(path.encode()) > 4096:
            raise Misfit()
        return posixpath.normpath(posixpath.join(directory, path))

    return Kind("a path", read)


IMAGE = matching(r"[^\s\x00-\x1f\x7f]{1,500}", "the name of a container image, without blanks,")
MODULE = matching(r"[A-Za-z0-9_][A-Za-z0-9_.+/@=:-]{0,254}", "the name of a module, such as CUDA/12.1,")

_EXPANSION = re.compile(r"\$(\w+|\{\w+\})", re.ASCII)


def _plain_text(value: Value, kind: Kind[str]) -> str:
    if isinstance(value.node, Scalar) and value.node.empty:
        value.refuse("there is no value", "write '' for an empty one")
        return ""
    return value.read(kind, "")
