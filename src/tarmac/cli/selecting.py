"""The selection of runs: by reference, `--name`, `--label` or `--all`. Used by `stop` and others."""

from __future__ import annotations

import sys
from collections.abc import Callable, Collection, Iterator, Sequence
from typing import Any, NoReturn

import click
from msgspec import Struct

from tarmac import api
from tarmac.cli.dialogue import print_json, print_refusals, remark, tell, wants_json
from tarmac.cli.options import complete_run, flag, pairs_option, together
from tarmac.cli.views import escapes
from tarmac.cli.views.amounts import counted
from tarmac.cli.views.messages import title
from tarmac.client import Client
from tarmac.model.errors import TarmacError, listed
from tarmac.model.summary import RunSummary

PAGE = 1000
_SHOWN = 10
_SELECTION = ("runs", "name_glob", "labels", "everything")


class Selection(Struct, frozen=True, kw_only=True):
    """The user's selection: references of runs, or without these, conditions for the user's own runs."""

    runs: tuple[str, ...] = ()
    name_glob: str | None = None
    labels: tuple[tuple[str, str], ...] = ()
    everything: bool = False


selection_options = together(
    click.argument("runs", metavar="[RUN...]", nargs=-1, shell_complete=complete_run),
    click.option("--name", "name_glob", metavar="GLOB", help="Your own runs of such a name, as 'lr-*'."),
    pairs_option("--label", "-l", "labels", help="Your own runs with this label; may be repeated."),
    flag("--all", "everything", help="All of your own runs."),
)
"""RUN..., --name, --label and --all, of which exactly one selects the runs."""

yes_option = flag("--yes", "-y", help="Do not ask.")


def selection_of(options: dict[str, Any]) -> Selection:
    """The selection, removed from a command's options; raises UsageError for none or two."""
    found = Selection(**{name: options.pop(name) for name in _SELECTION})
    by_condition = found.name_glob is not None or found.labels or found.everything
    if found.runs and by_condition:
        raise click.UsageError(
            f"give either runs ({' '.join(found.runs)}) or --name, --label or --all, not both"
        )
    if found.everything and (found.name_glob is not None or found.labels):
        raise click.UsageError("--all already means every run: leave out --name and --label")
    if not found.runs and not by_condition:
        raise click.UsageError("which runs? Give RUN..., --name GLOB, --label K=V or --all")
    return found


def matching_runs(
    client: Client, selection: Selection, states: Collection[str], verb: str
) -> list[RunSummary]:
    """The user's own runs that meet the conditions and are in one of these states, oldest first.

    If there is none, a remark says that there is none to `verb`.
    """
    from fnmatch import fnmatchcase

    query = {"states": sorted(states), "labels": dict(selection.labels), "mine": True}
    glob = selection.name_glob
    found = [run for run in pages(client, None, query) if glob is None or fnmatchcase(run.name, glob)]
    if not found:
        remark(f"there is no such run to {verb}")
    return found[::-1]


def named_runs(
    client: Client, references: Sequence[str], refusals: list[TarmacError]
) -> Iterator[tuple[str, api.Run]]:
    """Each reference with its run; the errors for unknown ones are appended to the refusals."""
    for reference in references:
        try:
            yield reference, client.run(reference)
        except TarmacError as error:
            refusals.append(error)


def means_all(run: api.Run, reference: str) -> bool:
    """Whether a reference that led to this run means every member of its array, as on the server."""
    return run.array_id is not None and reference in (run.name, run.array_id)


def member_ids(client: Client, run: api.Run, reference: str) -> list[str]:
    """The ids of the runs that a reference means: of all members of an array in order, or of this run."""
    if not means_all(run, reference):
        return [run.id]
    members = list(pages(client, None, {"array": run.array_id, "everything": True}))
    return [member.id for member in sorted(members, key=lambda member: member.array_index or 0)]


def pages(
    client: Client, limit: int | None, query: dict[str, Any], *, by_array: bool = False
) -> Iterator[RunSummary]:
    """Runs in the server's order, requested page by page.

    `by_array`: no page continues the arrays of the page before.
    """
    part: dict[str, Any] = {"limit": min(limit or PAGE, PAGE), "before": None}
    while True:
        page = client.runs(**part, **query)
        yield from page.runs
        if page.next is None:
            return
        part["before"] = page.next
        if by_array:
            part["without"] = sorted({run.array_id for run in page.runs if run.array_id is not None})


def each_in_turn(
    runs: Sequence[RunSummary | api.Run],
    call: Callable[[str], object],
    *,
    done: str,
    key: str,
    refusals: list[TarmacError],
) -> NoReturn:
    """Do something to each run and say so, print the answers as JSON, and exit as the refusals demand."""
    answers = []
    for run in runs:
        try:
            answers.append(call(run.id))
        except TarmacError as error:
            refusals.append(error)
        else:
            tell(f"{title(run)} ({run.id}) {done}")
    if wants_json():
        print_json({key: answers})
    sys.exit(print_refusals(refusals))


def confirm(verb: str, runs: Sequence[RunSummary | api.Run]) -> None:
    """Ask the user for confirmation; raises Abort on a no, UsageError without a terminal."""
    names = [f"{title(run)} ({run.id}, {run.state})" for run in runs]
    text = escapes.lines_only(f"{verb} {counted(len(runs), 'run')}: {listed(names, _SHOWN)}")
    if not sys.stdin.isatty():
        raise click.UsageError(f"this would {text}. Add -y to do it without a question")
    click.confirm(text, abort=True, err=True)
