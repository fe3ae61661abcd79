"""The known forms of traces: the meaning of their columns, and how to recognise their files. See `traces`.

A form is data; one reader reads all forms.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from math import isnan

from tarmac.model.errors import InvalidInput, nearest
from tarmac.simulator import swf


class Meaning(StrEnum):
    """The meanings of a trace's columns."""

    SUBMITTED = "submitted"
    DURATION = "duration"
    SLOTS = "slots"
    USER = "user"
    PROJECT = "project"
    NAME = "name"
    MODE = "mode"
    PRIORITY = "priority"
    WEIGHT = "weight"
    LIMIT = "limit"


NEEDED = (Meaning.SUBMITTED, Meaning.DURATION, Meaning.SLOTS)


@dataclass(frozen=True, slots=True, kw_only=True)
class Form:
    """The format of a kind of trace.

    `columns` are names of the header line, or for a file without one the numbers of columns from 0; times are
    in units of `unit_s`. `signature` are the columns that identify the form in a header. `cluster` is the
    shape that its sets were published for.
    """

    name: str
    columns: Mapping[Meaning, str | int]
    signature: frozenset[str] = frozenset()
    delimiter: str = ","
    unit_s: float = 1.0
    width: int | None = None
    cluster: str | None = None

    @property
    def headed(self) -> bool:
        """Whether the first line names the columns."""
        return self.width is None


@dataclass(frozen=True, slots=True, kw_only=True)
class Window:
    """From one day to another, both included, as seconds since the epoch (None: open)."""

    since: float | None = None
    until: float | None = None

    def holds(self, at: float) -> bool:
        """Whether a time is within the window."""
        return (self.since is None or at >= self.since) and (self.until is None or at < self.until)


PHILLY = Form(
    name="philly",
    columns={
        Meaning.SUBMITTED: "timestamp",
        Meaning.DURATION: "duration",
        Meaning.SLOTS: "num_gpus",
        Meaning.USER: "cluster",
    },
    signature=frozenset({"timestamp", "duration", "num_gpus", "gpu_time"}),
    cluster="64x8",
)
MURI = Form(
    name="muri",
    columns={
        Meaning.SUBMITTED: "submit_time",
        Meaning.DURATION: "duration",
        Meaning.SLOTS: "num_gpu",
        Meaning.NAME: "model_name",
    },
    signature=frozenset({"job_id", "num_gpu", "submit_time", "duration", "model_name"}),
    unit_s=0.001,
    cluster="8x8",
)
SHOCKWAVE = Form(
    name="shockwave",
    columns={Meaning.SUBMITTED: 11, Meaning.DURATION: 10, Meaning.SLOTS: 6, Meaning.NAME: 0},
    delimiter="\t",
    width=12,
    cluster="8x4",
)
SWF = Form(
    name="swf",
    columns={
        Meaning.SUBMITTED: swf.SUBMITTED,
        Meaning.DURATION: swf.DURATION,
        Meaning.SLOTS: swf.ALLOCATED,
        Meaning.LIMIT: swf.LIMIT,
        Meaning.USER: swf.USER,
        Meaning.NAME: swf.EXECUTABLE,
    },
    width=swf.WIDTH,
)
CSV = Form(name="csv", columns={meaning: meaning.value for meaning in Meaning}, signature=frozenset(NEEDED))

FORMS = {form.name: form for form in (PHILLY, MURI, SHOCKWAVE, SWF, CSV)}


def form_of(first_line: str) -> Form | None:
    """The form of a file that begins with this line; None if it is unknown."""
    if swf.begins(first_line):
        return SWF
    fields = first_line.split(SHOCKWAVE.delimiter)
    if len(fields) == SHOCKWAVE.width and all(is_number(fields[at]) for at in (6, 10, 11)):
        return SHOCKWAVE
    header = frozenset(name.strip() for name in first_line.split(","))
    known = (form for form in (PHILLY, MURI, CSV) if form.signature <= header)
    return next(known, None)


def is_number(text: str) -> bool:
    """Whether a field is a number."""
    return not isnan(swf.value_of(text))


def mapped(form: Form, columns: Mapping[Meaning, str]) -> Form:
    """The form with other names for some columns."""
    return replace(form, columns={**form.columns, **columns})


def columns_of(text: str) -> dict[Meaning, str]:
    """The columns in `submitted=NAME,duration=NAME,...`; raises InvalidInput for any other text."""
    columns: dict[Meaning, str] = {}
    for item in text.split(","):
        word, equals, name = item.partition("=")
        meaning = next((known for known in Meaning if known == word.strip()), None)
        if meaning is None or not equals or not name.strip():
            close = nearest(word.strip(), list(Meaning))
            hint = f"did you mean {close}=NAME?" if close else f"what columns can say: {', '.join(Meaning)}"
            raise InvalidInput(f"--columns: {item!r} is not of the form MEANING=NAME", hint=hint)
        columns[meaning] = name.strip()
    return columns
