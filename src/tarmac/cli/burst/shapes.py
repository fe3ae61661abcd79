"""`tarmac shapes`: the kinds of machines that providers rent out, their rates, and the stock found."""

from collections.abc import Sequence
from datetime import UTC, datetime

import click

from tarmac import api
from tarmac.cli.dialogue import answer, connect, print_list, remark, wants_json
from tarmac.cli.lazy import Subcommands
from tarmac.cli.options import flag, json_option, key_value
from tarmac.cli.runfile import read_text
from tarmac.cli.views.amounts import age, counted, number, size
from tarmac.cli.views.table import Cell, Column, Table, facts_text
from tarmac.cli.views.terminal import stdout_terminal
from tarmac.model.burst.shapes import Shape
from tarmac.model.errors import NotFound, suggestion
from tarmac.model.resources import is_of_type


def money(amount: float, shape: Shape | None) -> str:
    """An amount of money in the currency of a shape: "98.32 USD"."""
    return f"{amount:,.2f} {shape.currency}" if shape is not None else ""


def slots_text(shape: Shape) -> str:
    """The GPUs of a machine, or its slots without one: "8 h100", "16 cpu"."""
    return f"{shape.slots} {shape.slot_type}"


def _stock(shape: api.ListedShape, now: float) -> str | Cell:
    """What the last try to rent it found."""
    if (found := shape.stock) is None:
        return ""
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
@click.option("--below", type=click.FloatRange(min=0), metavar="RATE", help="Only up to this rate per hour.")
@json_option
def ls(
    *,
    provider: str | None,
    region: str | None,
    slot_type: str | None,
    spot: bool | None,
    below: float | None,
) -> None:
    """List shapes, the cheapest slots first.

    RATE and CREDITS are for one machine and hour. STOCK is what the last try to rent the shape found.
    """
    found = [
        shape
        for shape in connect().shapes()
        if provider in (None, shape.provider)
        and region in (None, shape.region)
        and is_of_type(shape.slot_type, slot_type)
        and spot in (None, shape.spot)
        and (below is None or shape.rate <= below)
    ]
    found.sort(key=lambda shape: (shape.rate / shape.slots, shape.id))
    empty = "there is no such shape; tarmac shapes import FILE adds those of a file"
    print_list("shapes", found, SHAPES, empty=empty)


@shapes.command()
@click.argument("shape_id", metavar="ID")
@json_option
def show(*, shape_id: str) -> None:
    """Show a shape."""
    known = {shape.id: shape for shape in connect().shapes()}
    if (shape := known.get(shape_id)) is None:
        hint = suggestion(shape_id, known, "tarmac shapes ls lists them")
        raise NotFound(f"there is no shape {shape_id!r}", hint=hint)
    stock, now = shape.stock, datetime.now(UTC).timestamp()
    facts = {
        "shape": shape.id,
        "provider": shape.provider,
        "region": shape.region,
        "machine": shape.machine,
        "kind": "spot" if shape.spot else "on demand",
        "processor": shape.processor,
        "slots": slots_text(shape),
        "cpus": number(shape.cpus) if shape.cpus else "",
        "memory": size(shape.memory_bytes) if shape.memory_bytes else "",
        "rate": f"{money(shape.rate, shape)} for one machine and hour, on {shape.rated_on}",
        "credits": f"{shape.credits_per_hour:,.2f} for one machine and hour",
        "stock": f"{stock.machines or 'none'}, {age(stock.tried_at, now)}" if stock else "never tried",
        "found": stock.text if stock else "",
    }
    answer(shape, facts_text(facts, stdout_terminal()))


@shapes.command()
@click.argument("shape_id", metavar="ID")
@click.argument("fields", metavar="FIELD=VALUE...", nargs=-1, required=True, type=key_value)
@json_option
def add(*, shape_id: str, fields: tuple[tuple[str, str], ...]) -> None:
    """Add a shape, or replace the one of its id, with the fields of a shapes file. For admins.

    \b
    tarmac shapes add lab-h100 provider=lab region=here machine=big slots=8 slot_type=h100 rate=12.50

    `rated_on` is today, if it is not given.
    """
    from tarmac.dialects.shapes_file import shape_of

    shape = shape_of(shape_id, {"rated_on": _today(), **dict(fields)})
    (added,) = connect().set_shapes([shape])
    answer(added, f"there is shape {added.id}: {slots_text(added)} for {money(added.rate, added)} per hour")


@shapes.command()
@click.argument("shape_id", metavar="ID")
@json_option
def rm(*, shape_id: str) -> None:
    """Remove a shape. Machines of it that are rented stay until their run ends. For admins."""
    removed = connect().remove_shape(shape_id)
    answer(removed, f"shape {removed.id} is gone")


@shapes.command("import")
@click.argument("file", metavar="FILE", type=click.Path())
@click.option("--replace", metavar="PROVIDER", help="Remove the shapes of this provider that FILE lacks.")
@json_option
def import_(*, file: str, replace: str | None) -> None:
    """Add the shapes of a TOML file: a table for each, named by its id. For admins.

    All of them or none. A shape replaces the one of its id. FILE may be - for standard input.
    """
    from tarmac.dialects.shapes_file import read_shapes

    source = read_text(file, what="a shapes file")
    found = read_shapes(source.text, filename=source.filename)
    added = connect().set_shapes(found, replacing=replace)
    answer({"shapes": added}, f"{counted(len(added), 'shape')} imported from {file}")


@shapes.command()
@flag("--gpuhunt", help="Through gpuhunt, an extra: pip install 'tarmac[shapes]'.")
@click.argument("providers", metavar="[PROVIDER]...", nargs=-1)
@json_option
def refresh(*, gpuhunt: bool, providers: tuple[str, ...]) -> None:
    """Ask the providers for the present rates of all shapes. For admins.

    With --gpuhunt, its catalogue is asked instead, or only these PROVIDERs of it: aws, vastai. A rate is
    that of the same machine in the same region. Providers that have no place in the catalogue are asked
    with the keys of your shell.
    """
    if providers and not gpuhunt:
        raise click.UsageError("PROVIDER is one of gpuhunt: write --gpuhunt before it")
    client = connect()
    before: Sequence[api.ListedShape] = client.shapes()
    if gpuhunt:
        from tarmac.cli.burst.market import present_rates

        rated, unknown = present_rates(before, providers, _today())
        after = client.set_shapes(rated) if rated else []
        if unknown and not wants_json():
            remark(f"gpuhunt has no offer for {', '.join(unknown)}")
    else:
        after = client.refresh_shapes()
    rates = {shape.id: shape.rate for shape in before}
    changed = [shape for shape in after if shape.rate != rates.get(shape.id)]
    changes: Table[api.ListedShape] = (
        Column("SHAPE", lambda shape, _: shape.id),
        Column("BEFORE", lambda shape, _: money(rates.get(shape.id, 0.0), shape), right=True),
        Column("NOW", lambda shape, _: money(shape.rate, shape), right=True),
    )
    print_list("shapes", changed, changes, empty="no rate has changed")


def _today() -> str:
    return datetime.now(UTC).date().isoformat()
