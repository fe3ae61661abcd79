"""Runs as MCLI shows them: `get runs`, and `describe run`. Found by `registry` under the name mcli.

Columns, widths and words are those of MCLI's documentation; times are local.
"""

from collections.abc import Iterator, Sequence

from tarmac import api
from tarmac.cli.views.terminal import Terminal, one_line
from tarmac.cli.views.terminal import columns as width
from tarmac.dialects.dialect import Report
from tarmac.model.codec import decode
from tarmac.model.errors import InvalidInput
from tarmac.model.resources import ACCELERATOR, CPU_ONLY
from tarmac.model.spec import RunSpec
from tarmac.model.summary import RunSummary
from tarmac.systems.display import Display
from tarmac.systems.listing import report_of
from tarmac.systems.mcli.reader import NAME
from tarmac.systems.mcli.statuses import NONE, Status, columns, status, when
from tarmac.systems.mcli.view import submitted

_GAP = "  "
_WIDTHS = ((19, 0), (8, 0), (20, 0), (10, 1), (9, 0))
"""The least width of a column, and the extra width of a value: the spacing of the documentation's tables."""

_STAGES = ("STATUS", "START_TIME", "END_TIME", "DURATION")
_LABEL_WIDTH = 13


class McliDisplay(Display):
    """`mcli get runs` and `mcli describe run`."""

    def status(self, report: Report) -> str:
        return status(report).value

    def runs(self, runs: Sequence[RunSummary], terminal: Terminal) -> str:  # noqa: ARG002 the port's
        listed = columns(None)
        rows = [[one_line(each.text(run, None)) for each in listed] for run in runs]
        widths = [
            max([least, *(width(row[index]) + more for row in rows)])
            for index, (least, more) in enumerate(_WIDTHS)
        ]
        return "\n".join(_line(row, widths) for row in ([each.title for each in listed], *rows))

    def run(self, run: api.Run, attempts: Sequence[api.Attempt], terminal: Terminal) -> str:  # noqa: ARG002 the port's
        parts = [
            ["Run Metadata", *_metadata(run, attempts)],
            ["Run Lifecycle", *_lifecycle(run, status(report_of(run)))],
            ["Submitted YAML", _submitted(run).rstrip("\n")],
        ]
        return "\n\n".join("\n".join(part) for part in parts)


DISPLAY = McliDisplay()


def _submitted(run: api.Run) -> str:
    """The run file; for a clone or a changed run, the configuration that ran."""
    source = str(run.source)
    if run.dialect != NAME:
        return source
    try:
        return submitted(decode(RunSpec, {**run.spec, "source": source}), name=run.name)
    except InvalidInput:  # from a server of another version
        return source


def _metadata(run: api.Run, attempts: Sequence[api.Attempt]) -> Iterator[str]:
    spec = run.spec
    placed = attempts[-1].cluster.removesuffix(f"-{run.id}") if attempts else None
    slot_type = spec["roles"][0].get("slot_type")
    slot_types = [kind for kind in (attempts[-1].slot_types if attempts else ()) if kind != CPU_ONLY]
    fields = {
        "Run Name": run.name,
        "Cluster": placed or spec.get("target", {}).get("cluster"),
        "Image": spec.get("environment", {}).get("image"),
        "GPU Type": ", ".join(slot_types) or (slot_type if slot_type != ACCELERATOR else None),
        "GPU Num": run.slots,
    }
    if run.outcome == "failed" and run.cause is not None:  # later versions of MCLI showed the reason
        fields["Reason"] = run.cause.message
    return (f"{name:<{_LABEL_WIDTH}}{one_line(str(value))}" for name, value in fields.items())


def _lifecycle(run: api.Run, end_status: Status) -> Iterator[str]:
    """Waiting, running, the end: three rows, even before they have happened."""
    created, started, ended = run.created_at, run.started_at, run.ended_at
    wait_end = started if started is not None else ended
    last = end_status if ended is not None else Status.COMPLETED
    rows = (
        _STAGES,
        ("PENDING", when(created), when(wait_end), _took(created, wait_end)),
        ("RUNNING", when(started), when(ended if started is not None else None), _took(started, ended)),
        (last.name, when(ended), "--", ""),
    )
    widths = [max(width(row[index]) for row in rows) for index in range(len(_STAGES) - 1)]
    return (_line(row, widths) for row in rows)


def _line(cells: Sequence[str], widths: Sequence[int]) -> str:
    padded = (cell + " " * (most - width(cell)) for cell, most in zip(cells, widths, strict=False))
    return _GAP.join((*padded, cells[-1])).rstrip()


def _took(start: float | None, end: float | None) -> str:
    """A duration in its largest unit, rounded down."""
    if start is None or end is None:
        return NONE
    seconds = int(max(0.0, end - start))
    for unit, size in (("d", 86400), ("hr", 3600), ("min", 60)):
        if seconds >= size:
            return f"{seconds // size}{unit}"
    return f"{seconds}s"
