"""`tarmac diff`: print the differences between two runs: spec, code, variables, last metrics, outcomes."""

from collections.abc import Iterator, Mapping
from typing import Any

import click

from tarmac import api
from tarmac.cli.options import complete_run, json_option, wants_json
from tarmac.cli.output import print_json, print_text, remark
from tarmac.cli.session import connect
from tarmac.cli.views.amounts import duration
from tarmac.cli.views.messages import elapsed_s, named, state_of
from tarmac.cli.views.metricview import metric_text, series_name
from tarmac.cli.views.table import Cell, Column, Table, table_text
from tarmac.cli.views.terminal import Terminal, stdout_terminal
from tarmac.client import Client
from tarmac.model.errors import NotFound

SECTIONS = ("spec", "code", "variables", "metrics", "outcome")

_UNSHOWN = {"source", "name", "code.digest", "environment.inherited", "environment.variables"}
"""Fields of a spec that are not compared: the text itself, and those with a section of their own."""

_STYLES = {"added": "green", "removed": "red", "changed": "yellow"}
CODE: Table[api.CodeChange] = (
    Column("CODE", lambda row, _: Cell(row.change, _STYLES[row.change])),
    Column("FILE", lambda row, _: row.path, flexible=True),
)


@click.command()
@click.argument("before", metavar="RUN", shell_complete=complete_run)
@click.argument("after", metavar="RUN", shell_complete=complete_run)
@json_option
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
    if isinstance(value, list):
        return " ".join(map(str, value))
    return metric_text(value)
