"""`tarmac label`, `note`, `diff` and `files`: commands about what a run is called, was and worked in."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import click

from tarmac import api
from tarmac.cli.dialogue import answer, connect, print_json, print_list, print_text, remark, wants_json
from tarmac.cli.lazy import command
from tarmac.cli.options import complete_run, run_argument
from tarmac.cli.views.amounts import age, counted, duration, size
from tarmac.cli.views.messages import elapsed_s, named, state_of
from tarmac.cli.views.metricview import metric_text, series_name
from tarmac.cli.views.runview import ANNOTATIONS
from tarmac.cli.views.table import Cell, Column, Table, table_text
from tarmac.cli.views.terminal import Terminal, stdout_terminal
from tarmac.client import Client
from tarmac.model.errors import InvalidInput, NotFound


@command()
@run_argument
@click.argument("changes", metavar="[K=V|K-]...", nargs=-1)
def label(*, run: str, changes: tuple[str, ...]) -> None:
    """Set labels of a run with K=V, remove them with K-; without either, print them."""
    parsed = dict(map(_change, changes))
    client = connect()
    record = client.label(run, parsed) if parsed else client.run(run)
    text = "\n".join(f"{key}={value}" for key, value in sorted(record.labels.items()))
    answer(record, text, empty=f"{record.name} ({record.id}) has no labels")


@command()
@run_argument
@click.argument("text", metavar="[TEXT]...", nargs=-1)
def note(*, run: str, text: tuple[str, ...]) -> None:
    """Add a note to a run; without TEXT, print its notes and the changes of its labels."""
    client = connect()
    found = client.note(run, " ".join(text)) if text else client.annotations(run)
    if text and not wants_json():
        remark("noted")
    else:
        empty = "this run has no notes; tarmac note RUN TEXT adds one"
        print_list("annotations", found, ANNOTATIONS, empty=empty)


def _change(text: str) -> tuple[str, str | None]:
    """`K=V`, or `K-` to remove a label."""
    key, equals, value = text.partition("=")
    if equals and key:
        return key, value
    if not equals and key.endswith("-") and len(key) > 1:
        return key[:-1], None
    raise click.UsageError(f"{text!r} is neither K=V nor K- (which removes a label)")


SECTIONS = ("spec", "code", "variables", "metrics", "outcome")

_UNSHOWN = {"source", "name", "code.digest", "environment.inherited", "environment.variables"}
"""Fields of a spec that are not compared: the text itself, and those with a section of their own."""

_STYLES = {"added": "green", "removed": "red", "changed": "yellow"}
CODE: Table[api.CodeChange] = (
    Column("CODE", lambda row, _: Cell(row.change, _STYLES[row.change])),
    Column("FILE", lambda row, _: row.path, flexible=True),
)


@command()
@click.argument("before", metavar="RUN", shell_complete=complete_run)
@click.argument("after", metavar="RUN", shell_complete=complete_run)
def diff(*, before: str, after: str) -> None:
    """Show what differs between two runs: spec, code files, variables, last metrics, outcome."""
    client = connect()
    one, other = client.run(before), client.run(after)
    changes, missing = _code(client, one, other)
    found: dict[str, Any] = {
        "spec": differences(_spec(one), _spec(other)),
        "code": changes,
        "variables": differences(_variables(one), _variables(other)),
        "metrics": differences(_metrics(client, one), _metrics(client, other)),
        "outcome": differences(_outcome(one), _outcome(other)),
    }
    if wants_json():
        print_json({"runs": [one.id, other.id], **found})
        return
    if missing:
        remark(missing)
    if not any(found.values()):
        remark(f"{named(one)} and {named(other)} do not differ")
        return
    print_text(diff_text(one, other, found, stdout_terminal()))


def differences(one: Mapping[str, Any], other: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The keys with different values, in order, with both values; None for a missing one."""
    keys = [*one, *(key for key in other if key not in one)]
    return [
        {"key": key, "values": [one.get(key), other.get(key)]}
        for key in sorted(keys)
        if one.get(key) != other.get(key)
    ]


def diff_text(one: api.Run, other: api.Run, found: Mapping[str, Any], terminal: Terminal) -> str:
    """A table for each section in which the runs differ."""
    values: Table[Any] = (
        Column(named(one), lambda row, _: _shown(row["values"][0])),
        Column(named(other), lambda row, _: _shown(row["values"][1]), flexible=True),
    )
    tables: dict[str, Table[Any]] = {
        section: (Column(section.upper(), lambda row, _: row["key"]), *values) for section in SECTIONS
    }
    shown = (tables | {"code": CODE}).items()
    return "\n\n".join(table_text(table, found[each], terminal) for each, table in shown if found[each])


def _code(client: Client, one: api.Run, other: api.Run) -> tuple[list[api.CodeChange], str | None]:
    """The differences in the code, and a sentence if they are no longer known."""
    try:
        return client.code_changes(one.id, other.id), None
    except NotFound as gone:
        return [], gone.message


def _spec(run: api.Run) -> dict[str, Any]:
    unshown = tuple(f"{name}." for name in _UNSHOWN)
    return {key: value for key, value in _flat(run.spec) if not f"{key}.".startswith(unshown)}


def _variables(run: api.Run) -> dict[str, str]:
    return dict((run.spec.get("environment") or {}).get("variables") or {})


def _flat(value: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """Every value in a tree, with its path."""
    if isinstance(value, Mapping) and value:
        for key, item in value.items():
            yield from _flat(item, f"{path}.{key}" if path else str(key))
    elif isinstance(value, list) and value and isinstance(value[0], Mapping | list):
        for number, item in enumerate(value):
            yield from _flat(item, f"{path}[{number}]")
    elif value not in (None, {}, [], "", False):
        yield path, value


def _metrics(client: Client, run: api.Run) -> dict[str, Any]:
    """The last value of each metric, and the last progress."""
    last: dict[str, Any] = {}
    for series in client.metrics(run.id) if run.attempt else []:
        last[series_name(series)] = series.last
        if series.last_step is not None:
            last["step"] = max(series.last_step, last.get("step", series.last_step))
    return last


def _outcome(run: api.Run) -> dict[str, Any]:
    ended_at = run.ended_at
    took = elapsed_s(run, ended_at) if ended_at is not None else None
    cause = run.cause
    return {
        "state": state_of(run),
        "cause": cause.message if cause is not None else None,
        "exit status": run.exit_status,
        "ran": duration(took) if took is not None else None,
        "attempts": run.attempt,
    }


def _shown(value: Any) -> str:
    return " ".join(map(str, value)) if isinstance(value, list) else metric_text(value)


_MARKS = {"directory": "/", "link": "@"}


def _name(file: api.WorkFile) -> Cell:
    return Cell(file.name + _MARKS.get(file.kind, ""), "bold" if file.kind == "directory" else None)


FILES: Table[api.WorkFile] = (
    Column("SIZE", lambda file, _: size(file.bytes) if file.kind == "file" else "", right=True),
    Column("CHANGED", lambda file, now: age(file.modified_at, now), right=True),
    Column("NAME", lambda file, _: _name(file)),
)


@command()
@run_argument
@click.argument("path", required=False, default="")
@click.option(
    "--output", "-o", metavar="TARGET", type=click.Path(), help="Fetch the file or directory to here."
)
@click.option("--attempt", type=click.IntRange(min=1), metavar="N", help="Of this attempt, not the newest.")
@click.option("--node", metavar="NAME", help="On this node, not the attempt's first.")
def files(*, run: str, path: str, output: str | None, attempt: int | None, node: str | None) -> None:
    """List what lies in the working directory of a run, or in a directory PATH below it; fetch it with -o."""
    client = connect()
    place: dict[str, Any] = {"attempt": attempt, "node": node}
    if output is None:
        found = client.files(run, path, **place)
        empty = "this directory is empty"
        print_list("files", found.files, FILES, empty=empty, document=found)
        if found.more and not wants_json():
            remark("there is more than is listed")
        return
    count = sum(1 for _ in _fetched(client, run, path.strip("/"), Path(output), place))
    answer({"output": output, "files": count}, f"{counted(count, 'file')} to {output}")


def _fetched(client: Client, run: str, path: str, target: Path, place: dict[str, Any]) -> Iterator[Path]:
    """Fetch a file, or a directory recursively, without links and special files. Yields each file."""
    try:
        found = client.files(run, path, **place)
    except NotFound:
        name = path.rpartition("/")[2]
        yield _written(client, run, path, target / name if target.is_dir() else target, place)
        return
    pinned = {"attempt": found.attempt, "node": found.node}
    if found.more:
        remark(f"{path or 'the working directory'} holds more than can be listed: not all of it is fetched")
    for each in found.files:
        name = each.name
        if "/" in name or name in (".", "..") or each.kind not in ("file", "directory"):
            remark(f"left out: {path}/{name} ({each.kind})")
            continue
        below = f"{path}/{name}".lstrip("/")
        if each.kind == "directory":
            yield from _fetched(client, run, below, target / name, pinned)
        else:
            yield _written(client, run, below, target / name, pinned)


def _written(client: Client, run: str, path: str, target: Path, place: dict[str, Any]) -> Path:
    pieces = client.file(run, path, **place)
    first = next(pieces, b"")  # a missing file leaves no empty one
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        with target.open("xb") as file:
            file.write(first)
            for piece in pieces:
                file.write(piece)
    except FileExistsError:
        raise InvalidInput(f"{target} exists already", hint="name another place with -o") from None
    return target
