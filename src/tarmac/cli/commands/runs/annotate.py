"""`tarmac label` and `tarmac note`: add labels and notes to a run after its submission."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from tarmac.cli.options import json_option, run_argument
from tarmac.cli.output import print_json, print_text, remark
from tarmac.cli.session import connect
from tarmac.cli.views.amounts import age
from tarmac.cli.views.table import heads, render
from tarmac.cli.views.terminal import Terminal, stdout_terminal

if TYPE_CHECKING:
    from tarmac.model.annotation import Annotation

_ANNOTATIONS = heads("WHEN, BY, KIND, TEXT", right="WHEN", flexible="TEXT", optional="BY")


@click.command()
@run_argument
@click.argument("changes", metavar="[K=V|K-]...", nargs=-1)
@json_option
def label(*, run: str, changes: tuple[str, ...], as_json: bool) -> None:
    """Set labels of a run with K=V, remove them with K-; without either, print them."""
    parsed = dict(map(_change, changes))
    client = connect()
    record = client.label(run, parsed) if parsed else client.run(run)
    if as_json:
        print_json(record)
    elif record["labels"]:
        print_text("\n".join(f"{key}={value}" for key, value in sorted(record["labels"].items())))
    else:
        remark(f"{record['name']} ({record['id']}) has no labels")


@click.command()
@run_argument
@click.argument("text", metavar="[TEXT]...", nargs=-1)
@json_option
def note(*, run: str, text: tuple[str, ...], as_json: bool) -> None:
    """Add a note to a run; without TEXT, print its notes and the changes of its labels."""
    client = connect()
    found = client.note(run, " ".join(text)) if text else client.annotations(run)
    if as_json:
        print_json({"annotations": found})
    elif text:
        remark("noted")
    elif found:
        print_text(annotation_table(found, now=time.time(), terminal=stdout_terminal()))
    else:
        remark("this run has no notes; tarmac note RUN TEXT adds one")


def annotation_table(found: Sequence[Annotation], *, now: float, terminal: Terminal) -> str:
    """A table of annotations, oldest first."""
    rows = ([age(each.at, now), each.actor, each.kind, each.text] for each in found)
    return render(_ANNOTATIONS, rows, terminal)


def _change(text: str) -> tuple[str, str | None]:
    """`K=V`, or `K-` to remove a label."""
    key, equals, value = text.partition("=")
    if equals and key:
        return key, value
    if not equals and key.endswith("-") and len(key) > 1:
        return key[:-1], None
    raise click.UsageError(
        f"{text!r} is neither K=V nor K- (which removes a label)", click.get_current_context()
    )
