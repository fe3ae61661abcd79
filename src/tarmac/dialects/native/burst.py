"""The fields of a run's wishes about rented machines. For the table in `fields`, the reader, simulations."""

import re

from tarmac.dialects.kinds import Kind, Misfit, matching, number, strict, written_number
from tarmac.dialects.located import Scalar, Table
from tarmac.dialects.quantities import duration_s, written_duration
from tarmac.dialects.schema import Field, record, tuple_of
from tarmac.dialects.section import Section
from tarmac.model.burst.shapes import ID_PATTERN, BurstRequest
from tarmac.model.lifecycle import Mode

LARGEST_RATE = 1e6
LARGEST_BUDGET = 1e12

_DURATION = duration_s()
_RATE = number(0, LARGEST_RATE)


def _wait_s(scalar: Scalar) -> float:
    found = re.fullmatch(r"wait *> *(\S+)", scalar.text)
    if found is None:
        alone = re.fullmatch(r"[0-9.]+[smhd]", scalar.text)
        raise Misfit(f"write: wait > {scalar.text}" if alone else None)
    return _DURATION.read(Scalar(text=found[1]))


def _rate(scalar: Scalar) -> float:
    amount, slash, unit = scalar.text.partition("/")
    if not slash and type(strict(scalar)) in (int, float):
        raise Misfit(f"add its unit: {amount}/h")
    if unit != "h":
        raise Misfit()
    return _RATE.read(Scalar(text=amount))


WAIT = Kind("a rule such as: wait > 2h", _wait_s, write=lambda wait_s: f"wait > {written_duration(wait_s)}")
"""How long a run waits before it rents, in seconds."""

RATE = Kind(
    f"money per hour such as 3.00/h, at most {LARGEST_RATE:,.0f}/h,",
    _rate,
    write=lambda rate: f"{written_number(rate)}/h",
)
SHAPE_ID = matching(
    ID_PATTERN, "the id of a shape, of lower-case letters, digits, '.', '_' and '-', at most 100,"
)

BURST = record(
    {
        "when": Field(WAIT, sets="wait_s", words="after rule"),
        "below": Field(RATE, words="max_rate max_price rate price"),
        "budget": Field(number(above=0, maximum=LARGEST_BUDGET), words="max_cost cost"),
        "shapes": Field(
            tuple_of(
                SHAPE_ID,
                "a list of ids of shapes",
                or_one=True,
                twice=(str, "{!r} occurs here a second time"),
            ),
            words="shape burst_shape_priority_list",
        ),
    },
    make=BurstRequest,
)
_OF_A_QUEUE = ("when", "below")


def check_burst(section: Section, mode: Mode) -> None:
    """Refuse wishes that a run of this mode cannot have, and a batch run that would never rent."""
    value = section.get("burst")
    if value is None or not isinstance(value.node, Table):
        return
    if mode not in (Mode.BATCH, Mode.BURST):
        value.refuse(f"only a run of mode 'batch' or 'burst' may rent machines, and this one is {mode}")
    elif mode is Mode.BURST:
        for key, _ in value.node.entries:
            if key.text in _OF_A_QUEUE:
                message = (
                    f"burst.{key.text}: a run of mode 'burst' rents at once, whatever its wait and the rate"
                )
                section.problems.add(key, message, "take it out, or write mode: batch")
    elif "when" not in value.node.values:
        value.refuse("'when' is missing", "after which wait in the queue it rents, as in when: wait > 2h")
