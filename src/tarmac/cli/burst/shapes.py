"""`tarmac shapes`: the kinds of machines that providers rent out, their rates, and the stock found."""

from datetime import UTC, datetime
from typing import Any

import click

from tarmac import api
from tarmac.cli.burst.market import present_rates
from tarmac.cli.dialogue import answer, connect, print_list, remark, wants_json
from tarmac.cli.lazy import Subcommands
from tarmac.cli.options import flag, key_value
from tarmac.cli.runfile import read_text
from tarmac.cli.views.amounts import age, counted
from tarmac.cli.views.offerview import money, slots_text
from tarmac.cli.views.table import Cell, Column, Table, facts_text
from tarmac.cli.views.terminal import stdout_terminal
from tarmac.dialects.schema import write_record
from tarmac.dialects.shapes_file import SHAPE, read_shapes, shape_of
from tarmac.model.errors import NotFound, suggestion
from tarmac.model.resources import is_of_type


def _stock(shape: api.ListedShape, now: float) -> Cell | None:
    """The result of the last try to rent it."""
    if (found := shape.stock) is None:
        return None
    text = f"{found.machines}" if found.machines else f"none: {found.text}" if found.text else "none"
    return Cell(f"{text}, {age(found.tried_at, now)}", "green" if found.machines else "yellow")


SHAPES: Table[api.ListedShape] = (
    Column("SHAPE", lambda shape, _: Cell(shape.id, "bold")),
    Column("PROVIDER", lambda shape, _: shape.provider),
    Column("REGION", lambda shape, _: shape.region),
    Column("PROCESSOR", lambda shape, _: shape.processor, optional=True),
    Column("SLOTS", lambda shape, _: slots_text(shape), right=True),
    Column("KIND", lambda shape, _: "spot" if shape.spot else "on demand"),
    Column("RATE", lambda shape, _: money(shape.rate, shape), right=True),
    Column("CREDITS", lambda shape, _: f"{shape.credits_per_hour:,.2f}", right=True),
    Column("RATED ON", lambda shape, _: shape.rated_on),
    Column("STOCK", _stock, flexible=True),
)


@click.group(cls=Subcommands)
def shapes() -> None:
    """List, add and remove shapes: kinds of machines that providers rent out, and their rates."""


@shapes.command()
@click.option("--provider", metavar="NAME", help="Only those of this provider.")
@click.option("--region", metavar="NAME", help="Only those in this region.")
@click.option("--type", "slot_type", metavar="TYPE", help="Only those with such slots: h100; gpu is any.")
@click.option("--spot/--on-demand", default=None, help="Only one of the two.")
def ls(*, slot_type: str | None, **filters: Any) -> None:
    """List shapes, the cheapest slots first.

    RATE and CREDITS are for one machine and hour. STOCK is what the last try to rent the shape found.
    """
    found = [
        shape
        for shape in connect().shapes()
        if all(value in (None, getattr(shape, name)) for name, value in filters.items())
        and is_of_type(shape.slot_type, slot_type)
    ]
    found.sort(key=lambda shape: (shape.rate / shape.slots, shape.id))
    empty = "there is no such shape; tarmac shapes import FILE adds those of a file"
    print_list("shapes", found, SHAPES, empty=empty)


@shapes.command()
@click.argument("shape_id", metavar="ID")
def show(*, shape_id: str) -> None:
    """Show a shape, with the fields of a shapes file."""
    known = {shape.id: shape for shape in connect().shapes()}
    if (shape := known.get(shape_id)) is None:
        hint = suggestion(shape_id, known, "tarmac shapes ls lists them")
        raise NotFound(f"there is no shape {shape_id!r}", hint=hint)
    stock = _stock(shape, datetime.now(UTC).timestamp())
    facts = {"shape": shape.id, **write_record(shape, SHAPE), "stock": stock and stock.text}
    answer(shape, facts_text(facts, stdout_terminal(), width=11))


@shapes.command()
@click.argument("shape_id", metavar="ID")
@click.argument("fields", metavar="FIELD=VALUE...", nargs=-1, required=True, type=key_value)
def add(*, shape_id: str, fields: tuple[tuple[str, str], ...]) -> None:
    """Add a shape, or replace the one of its id, with the fields of a shapes file. For admins.

    \b
    tarmac shapes add lab-h100 provider=lab region=here machine=big slots=8 slot_type=h100 rate=12.50

    `rated_on` is today, if it is not given.
    """
    shape = shape_of(shape_id, {"rated_on": _today(), **dict(fields)})
    connect().set_shapes([shape])
    answer(shape, f"there is shape {shape.id}: {slots_text(shape)} for {money(shape.rate, shape)} per hour")


@shapes.command()
@click.argument("shape_id", metavar="ID")
def rm(*, shape_id: str) -> None:
    """Remove a shape. Machines of it that are rented stay until their run ends. For admins."""
    removed = connect().remove_shape(shape_id)
    answer(removed, f"shape {removed.id} is gone")


@shapes.command("import")
@click.argument("file", metavar="FILE", type=click.Path())
@click.option("--replace", metavar="PROVIDER", help="Remove the shapes of this provider that FILE lacks.")
def import_(*, file: str, replace: str | None) -> None:
    """Add the shapes of a TOML file: a table for each, named by its id. For admins.

    All of them or none. A shape replaces the one of its id. FILE may be - for standard input.
    """
    source = read_text(file, what="a shapes file")
    found = read_shapes(source.text, filename=source.filename)
    connect().set_shapes(found, replacing=replace)
    answer({"shapes": found}, f"{counted(len(found), 'shape')} imported from {file}")


@shapes.command()
@flag("--gpuhunt", help="Through gpuhunt, an extra: pip install 'tarmac[shapes]'.")
@click.argument("providers", metavar="[PROVIDER]...", nargs=-1)
def refresh(*, gpuhunt: bool, providers: tuple[str, ...]) -> None:
    """Ask the providers for the present rates of all shapes. For admins.

    With --gpuhunt, its catalogue is asked instead, or only these PROVIDERs of it: aws, vastai. A rate is
    that of the same machine in the same region. Providers that have no place in the catalogue are asked
    with the keys of your shell.
    """
    if providers and not gpuhunt:
        raise click.UsageError("providers of gpuhunt need --gpuhunt: tarmac shapes refresh --gpuhunt aws")
    client = connect()
    before = client.shapes()
    if gpuhunt:
        rated, unknown = present_rates(before, providers, _today())
        after = client.set_shapes(rated)
        if unknown and not wants_json():
            remark(f"gpuhunt has no offer for {', '.join(unknown)}")
    else:
        after = client.refresh_shapes()
    rates = {shape.id: shape.rate for shape in before}
    changed = [shape for shape in after if shape.rate != rates.get(shape.id)]
    print_list("shapes", changed, SHAPES, empty="no rate has changed")


def _today() -> str:
    return datetime.now(UTC).date().isoformat()
