"""Hosts files: one machine per line, to `model.machine.Machine`, every problem located. Needs no server.

    # comment
    [user@]name [head] [port=N] [slots=N] [cpus=N] [address=IP] [python=COMMAND] [directory=PATH]

Read by the server for `tarmac cluster up`; docs/operating/gpu-servers.md explains the fields.
"""

import dataclasses
import ipaddress
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from tarmac.dialects.kinds import Kind, Misfit, integer, matching
from tarmac.dialects.located import Problems, Scalar, quote
from tarmac.model.cluster import Machine
from tarmac.model.codec import replace
from tarmac.model.errors import nearest

_TARGET = re.compile(r"(?:([A-Za-z0-9_][A-Za-z0-9_.-]{0,63})@)?([A-Za-z0-9][A-Za-z0-9_.-]{0,252})", re.ASCII)
"""Excludes names that `ssh` would read as an option."""

_BELOW = r"(?!(?:.*/)?\.\.(?:/|$))"
"""Excludes paths with `..`."""

MOST_MACHINES = 1_000
HEAD = "head"


@dataclass(frozen=True, slots=True)
class _Line:
    """A machine, with the positions of its name and of the word `head`."""

    machine: Machine
    name: Scalar
    head: Scalar | None


def read_machines(text: str, *, filename: str) -> tuple[Machine, ...]:
    """The machines in the order of the file, exactly one of them the head (the first if none is marked).

    Raises InvalidInput with every problem in the file.
    """
    problems = Problems(filename)
    lines = [
        line
        for number, content in enumerate(text.splitlines(), start=1)
        if (line := _line(list(_words(content, number)), problems)) is not None
    ]
    if not lines and not problems:
        problems.add(None, "no host is in this file", "one line a host, such as 'ada@gpu1 slots=8'")
    if len(lines) > MOST_MACHINES:
        problems.add(None, f"{len(lines)} hosts are more than the {MOST_MACHINES} that are allowed")
    _refuse_twins(lines, problems)
    _refuse_differences(lines, problems)
    heads = [line for line in lines if line.head is not None]
    for line in heads[1:]:
        first = f"{heads[0].machine.name} on line {heads[0].name.line}"
        problems.add(line.head, f"{first} is the head already", "a cluster has one")
    head = heads[0] if heads else next(iter(lines), None)
    for line in lines:
        if line is not head and line.machine.port is not None:
            problems.add(line.name, "port= is for the head alone")
    problems.raise_any()
    return tuple(replace(line.machine, head=line is head) for line in lines)


def _words(content: str, number: int) -> Iterator[Scalar]:
    """The words of a line before a comment."""
    for found in re.finditer(r"\S+", content):
        if found[0].startswith("#"):
            return
        yield Scalar(text=found[0], quoted=True, line=number, column=found.start() + 1)


def _line(words: list[Scalar], problems: Problems) -> _Line | None:
    """The machine of a line; None for an empty line or an invalid name."""
    if not words:
        return None
    name, *options = words
    target = _TARGET.fullmatch(name.text)
    if target is None:
        hint = "[user@]name as ssh takes it"
        if re.fullmatch(r"[^:]+:\d+", name.text):
            hint = "the port of a host is said in ~/.ssh/config, under a name that stands here"
        elif "=" in name.text or name.text == HEAD:
            hint = "a line begins with the name of its host"
        problems.add(name, f"{quote(name)} is no host", hint)
    values: dict[str, Any] = {}
    head: Scalar | None = None
    for word in options:
        key, sign, value = word.text.partition("=")
        if word.text == HEAD and head is None:
            head = word
        elif word.text == HEAD or key in values:
            problems.add(word, f"{key} stands twice on this line")
        elif not sign or key not in _FIELDS:
            problems.add(word, f"{quote(word)} is not known here", _near(key))
        else:
            try:
                values[key] = _FIELDS[key].read(Scalar(text=value))
            except Misfit:
                found = dataclasses.replace(word, text=value, column=(word.column or 1) + len(key) + 1)
                problems.add(found, f"{key} is {quote(found)}", _FIELDS[key].description)
                values[key] = None
    if target is None:
        return None
    return _Line(Machine(user=target[1], name=target[2], **values), name, head)


def _refuse_twins(lines: list[_Line], problems: Problems) -> None:
    """Report machines with equal names or equal addresses."""
    for what in ("name", "address"):
        known: dict[str, _Line] = {}
        for line in lines:
            value = getattr(line.machine, what)
            if value is None:
                continue
            first = known.setdefault(value, line)
            if first is not line:
                text = f"{value} stands on line {first.name.line} already"
                problems.add(line.name, text, f"one line for each {what}")


def _refuse_differences(lines: list[_Line], problems: Problems) -> None:
    """Report fields that must be equal on all machines of a cluster but differ."""
    for field, otherwise in _ALIKE.items():
        for line in lines[1:]:
            first, value = getattr(lines[0].machine, field), getattr(line.machine, field)
            if value != first:
                found, other = (f"{field}={each}" if each else f"no {field}=" for each in (value, first))
                text = f"{line.machine.name} has {found}, {lines[0].machine.name} has {other}"
                hint = f"the same on all hosts, or on none: then {otherwise}"
                problems.add(line.name, text, hint)


def _near(key: str) -> str:
    near = nearest(key, [HEAD, *_FIELDS], {"gpus": "slots", "gpu": "slots", "ip": "address", "cpu": "cpus"})
    if near is None:
        return f"known: {HEAD}, {', '.join(f'{field}=' for field in _FIELDS)}"
    return f"did you mean {near}{'' if near == HEAD else '='}?"


def _count(least: int, most: int) -> Kind[int]:
    kind = integer(least, most)
    return dataclasses.replace(kind, description=f"{kind.description} is expected")


def _ipv4(scalar: Scalar) -> str:
    try:
        return str(ipaddress.IPv4Address(scalar.text))
    except ValueError:
        raise Misfit() from None


_ALIKE = {
    "slots": "each has what is found there",
    "cpus": "each has what is found there",
    "python": "it is python3",
}
_FIELDS: dict[str, Kind[Any]] = {
    "port": _count(1024, 65_535),
    "slots": _count(1, 1_024),
    "cpus": _count(1, 65_536),
    "address": Kind("an address such as 10.0.0.7, at which the other hosts reach this one", _ipv4),
    "python": matching(rf"{_BELOW}[A-Za-z0-9_./+~-]{{1,200}}", "a command or a path, without blanks"),
    "directory": matching(
        rf"{_BELOW}/[A-Za-z0-9_./+@-]{{0,200}}",
        "an absolute path of letters, digits and _./+@-, without '..'",
    ),
}
