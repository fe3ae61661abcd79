"""`tarmac label` and `tarmac note`: add labels and notes to a run after its submission."""

import click

from tarmac.cli.options import json_option, run_argument, wants_json
from tarmac.cli.output import answer, print_list, remark
from tarmac.cli.session import connect
from tarmac.cli.views.amounts import age
from tarmac.cli.views.table import Column, Table
from tarmac.model.run_records import Annotation

ANNOTATIONS: Table[Annotation] = (
    Column("WHEN", lambda each, now: age(each.at, now), right=True),
    Column("BY", lambda each, _: each.actor, optional=True),
    Column("KIND", lambda each, _: each.kind),
    Column("TEXT", lambda each, _: each.text, flexible=True),
)


@click.command()
@run_argument
@click.argument("changes", metavar="[K=V|K-]...", nargs=-1)
@json_option
def label(*, run: str, changes: tuple[str, ...]) -> None:
    """Set labels of a run with K=V, remove them with K-; without either, print them."""
    parsed = dict(map(_change, changes))
    client = connect()
    record = client.label(run, parsed) if parsed else client.run(run)
    text = "\n".join(f"{key}={value}" for key, value in sorted(record.labels.items()))
    answer(record, text, empty=f"{record.name} ({record.id}) has no labels")


@click.command()
@run_argument
@click.argument("text", metavar="[TEXT]...", nargs=-1)
@json_option
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
