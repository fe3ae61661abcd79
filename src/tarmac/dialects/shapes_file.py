"""Shapes files: TOML with a table for each shape, to `model.burst.shapes.Shape`, every problem located.

Read by `tarmac shapes import` and `add`; docs/operating/burst.md explains the fields. Needs no server.
"""

from collections.abc import Mapping
from datetime import date

from tarmac.dialects import quantities
from tarmac.dialects.kinds import Kind, Misfit, flag, integer, line, matching, number
from tarmac.dialects.located import Problems, Scalar, Table, key_text
from tarmac.dialects.schema import Field, attributes, read_value, record
from tarmac.dialects.section import Value
from tarmac.dialects.toml_tree import compose
from tarmac.model.burst.shapes import ID_PATTERN, Shape


def _day(scalar: Scalar) -> str:
    try:
        return date.fromisoformat(scalar.text).isoformat()
    except ValueError:
        raise Misfit from None


_RATE = number(0, 1_000_000.0)
_ID = matching(
    ID_PATTERN, "the id of a shape, of small letters, digits, '.', '_' and '-', first a letter or digit,"
)
SHAPE = record(
    {
        "provider": Field(line("the name of a provider", 63), required="the provider that rents it out"),
        "region": Field(line("a region", 255), required='a region of the provider, such as "us-east-1"'),
        "machine": Field(
            line("the provider's name for this kind of machine", 255),
            required='the provider\'s name for it, such as "p5.48xlarge"',
            words="instance instance_type",
        ),
        "processor": line("the name of a processor", 255),
        "cpus": Field(number(0, 1_000_000.0), words="cpu"),
        "memory": Field(quantities.SIZE, sets="memory_bytes", words="mem ram"),
        "slots": Field(integer(1, 1024), required="the GPUs of a machine, or its slots", words="gpu gpus"),
        "slot_type": Field(quantities.TYPE_NAME, words="type gpu_type"),
        "spot": flag(),
        "rate": Field(_RATE, required="the money for one machine and hour", words="cost price"),
        "currency": matching("[A-Z]{3}", "a currency such as USD"),
        "credits": _RATE,
        "rated_on": Field(
            Kind("a day such as 2026-11-01", _day),
            required="the day on which the rate was valid",
            words="date",
        ),
    }
)
"""The fields of a shape in a file: those of its record but `id`, which is the name of the table."""


def read_shapes(text: str, *, filename: str) -> list[Shape]:
    """The shapes of a file, in its order; raises InvalidInput with every problem in it."""
    problems = Problems(filename)
    tree = compose(text, problems)
    if tree is not None and not tree.entries:
        problems.add(None, "no shape is in this file", "a shape is a table: [ID], and its fields below")
    return _shapes(tree or Table(entries=()), problems)


def shape_of(shape_id: str, fields: Mapping[str, str]) -> Shape:
    """The shape with these fields, as words of a command; raises InvalidInput with every problem in them."""
    entries = tuple((Scalar(text=name), Scalar(text=value)) for name, value in fields.items())
    table = Table(entries=((Scalar(text=shape_id), Table(entries=entries)),))
    (shape,) = _shapes(table, Problems(None))
    return shape


def _shapes(tree: Table, problems: Problems) -> list[Shape]:
    shapes = []
    for key, value in tree.entries:
        shape_id = Value(key, "", problems).read(_ID, "")
        found = read_value(Value(value, key_text(key), problems), SHAPE)
        if not problems:
            shapes.append(Shape(id=shape_id, **attributes(found, SHAPE)))
    problems.raise_any()
    return shapes
