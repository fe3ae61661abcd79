"""The results of plays, for people and for programs. Used by `tarmac simulate` and the benchmark."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import groupby
from typing import Any

from msgspec import structs

from tarmac.cli.views.amounts import duration
from tarmac.cli.views.table import Cell, Column, render
from tarmac.cli.views.terminal import Terminal
from tarmac.simulator.comparing import Result, Setting
from tarmac.simulator.measures import Measures
from tarmac.simulator.shapes import shape_text, slots_of

Played = Sequence[tuple[Setting, Result]]

NEVER_FITS_NAMED = 3

LEGEND = """\
Times in seconds. FAIRNESS: the worst completion time over a fair one, with as many jobs per slot as the
trace has (as published); BY LIFE: with as many as there were during its life. UNFAIR: the share over 1.05."""


SAVED = {
    "completion_mean_s": "completion saved, mean",
    "queueing_mean_s": "queueing saved, mean",
    "queueing_p50_s": "queueing saved, p50",
    "queueing_p99_s": "queueing saved, p99",
}
"""The figures that a play with rentals is compared by, and their titles."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Published:
    """A published result for the same jobs: the authors' name of a policy, times in seconds."""

    policy: str
    completion_s: float
    queueing_s: float | None = None
    makespan_s: float | None = None
    p99_s: float | None = None
    worst_fairness: float | None = None
    unfair_share: float | None = None


_WIDE: tuple[tuple[str, Callable[[Measures], str], Callable[[Published], str]], ...] = (
    ("COMPLETION", lambda of: _seconds(of.completion_mean_s), lambda of: _seconds(of.completion_s)),
    ("P50", lambda of: _seconds(of.completion_p50_s), lambda _: ""),
    ("P99", lambda of: _seconds(of.completion_p99_s), lambda of: _seconds(of.p99_s)),
    ("QUEUEING", lambda of: _seconds(of.queueing_mean_s), lambda of: _seconds(of.queueing_s)),
    ("MAKESPAN", lambda of: _seconds(of.makespan_s), lambda of: _seconds(of.makespan_s)),
    ("UTIL", lambda of: f"{of.utilisation:.1%}", lambda _: ""),
    ("PREEMPTED", lambda of: f"{of.preemptions:,}", lambda _: ""),
    ("FAIRNESS", lambda of: _ratio(of.fairness.worst), lambda of: _ratio(of.worst_fairness)),
    ("UNFAIR", lambda of: _share(of.fairness.unfair_share), lambda of: _share(of.unfair_share)),
    ("BY LIFE", lambda of: _ratio(of.fairness_by_life.worst), lambda _: ""),
)
"""Columns of the table over all traces: of a play, and of a published result."""


def comparison(played: Played, named: Mapping[str, float], terminal: Terminal) -> str:
    """The policies side by side, for each trace."""
    return "\n\n".join(
        "\n".join(_side_by_side(list(part), named, terminal)) for _, part in groupby(played, key=_trace_of)
    )


def wide_table(
    played: Played, published: Callable[[Setting], Iterable[Published]], terminal: Terminal
) -> str:
    """All policies on all traces in one table, with published results for the same jobs."""
    rows: list[Sequence[Cell | str]] = []
    for _, group in groupby(played, key=_trace_of):
        part = list(group)
        setting = part[0][0]
        for setting, result in part:
            label = setting.label + ("" if result.complete else " (partial)")
            shown = (show(result.measures) for _, show, _ in _WIDE)
            rows.append((setting.trace.name, Cell(label, "bold"), *shown))
        for known in published(setting):
            cells = (setting.trace.name, f"{known.policy}, published", *(show(known) for _, _, show in _WIDE))
            rows.append([Cell(cell, "dim") for cell in cells])
    columns: list[Column[object]] = [Column(title, right=True) for title, *_ in _WIDE]
    return "\n".join([render([Column("TRACE"), Column("POLICY"), *columns], rows, terminal), "", LEGEND])


def never_fits_remarks(played: Played) -> Iterator[str]:
    """A sentence on the jobs that could never start, if there are any."""
    for setting, result in played:
        if result.never_fits:
            named = "; ".join(
                f"{item.job} ({item.slots} slots): {item.reason}"
                for item in result.never_fits[:NEVER_FITS_NAMED]
            )
            more = len(result.never_fits) - NEVER_FITS_NAMED
            tail = f"; and {more} more" if more > 0 else ""
            where = f"{setting.trace.name}, {setting.label}"
            yield f"{where}: {len(result.never_fits)} can never start: {named}{tail}"


def document(played: Played, named: Mapping[str, float]) -> dict[str, Any]:
    """All results, for programs: docs/operating/simulate.md names the fields."""
    traces = []
    for _, group in groupby(played, key=_trace_of):
        part = list(group)
        setting = part[0][0]
        traces.append(
            {
                "name": setting.trace.name,
                "form": setting.trace.form,
                "jobs": len(setting.trace.jobs),
                "plays": [_play_document(setting, result, part) for setting, result in part],
            }
        )
    complete = all(result.complete for _, result in played)
    return {"complete": complete, "named": dict(named), "traces": traces}


def _play_document(setting: Setting, result: Result, part: Played) -> dict[str, Any]:
    return {
        "label": setting.label,
        "policy": setting.rules.policy,
        "preemption": setting.rules.preempting,
        "limits": setting.rules.limit_factor,
        "restart_cost_s": setting.rules.restart_s,
        "cluster": shape_text(setting.cluster),
        "slots": slots_of(setting.cluster),
        "complete": result.complete,
        "wall_s": round(result.wall_s, 3),
        "never_fits": [asdict(item) for item in result.never_fits],
        **asdict(result.measures),
        "saved": _saved(setting, result, part),
    }


def _saved(setting: Setting, result: Result, part: Played) -> dict[str, float] | None:
    """The figures of the same play without rentals, less those of this one."""
    if setting.rules.renting is None:
        return None
    rules = structs.replace(setting.rules, renting=None)
    found = (of.measures for item, of in part if item.rules == rules and item.cluster == setting.cluster)
    before, after = asdict(next(found)), asdict(result.measures)
    pairs = ((name, before[name], after[name]) for name in SAVED)
    return {name: was - now for name, was, now in pairs if was is not None and now is not None}


def _trace_of(item: tuple[Setting, Result]) -> int:
    return id(item[0].trace)


def _side_by_side(part: Played, named: Mapping[str, float], terminal: Terminal) -> Iterator[str]:
    setting = part[0][0]
    trace = setting.trace
    shapes = dict.fromkeys(
        f"{shape_text(item.cluster)} ({slots_of(item.cluster):,} slots)" for item, _ in part
    )
    yield terminal.paint(f"{trace.name}: {len(trace.jobs):,} jobs on {' and '.join(shapes)}", "bold")
    labels: list[Column[object]] = [Column(item.label, right=True) for item, _ in part]
    facts = [_facts(result.measures, _saved(setting, result, part) or {}) for setting, result in part]
    rows = [[title, *(each[title] for each in facts)] for title in facts[0]]
    rows = [row for row in rows if any(row[1:])]
    if any(not result.complete for _, result in part):
        rows.append(["", *("" if result.complete else "partial" for _, result in part)])
    yield render([Column(""), *labels], rows, terminal)
    for name, value in named.items():
        yield f"{name}: completion, mean {duration(value)}"


def _facts(of: Measures, saved: Mapping[str, float]) -> dict[str, str]:
    """The figures of a play by their titles; empty ones are unknown."""
    estimates, promises, rentals = of.estimates, of.promises, of.rentals
    return {
        "completion, mean": duration(of.completion_mean_s),
        "completion, p50": duration(of.completion_p50_s),
        "completion, p99": duration(of.completion_p99_s),
        "queueing, mean": duration(of.queueing_mean_s),
        "queueing, p50": duration(of.queueing_p50_s),
        "queueing, p99": duration(of.queueing_p99_s),
        "makespan": duration(of.makespan_s),
        "utilisation": f"{of.utilisation:.1%}",
        "preemptions": f"{of.preemptions:,}",
        "worst finish-time fairness": _ratio(of.fairness.worst),
        "unfair (above 1.05)": _share(of.fairness.unfair_share),
        "worst, by life": _ratio(of.fairness_by_life.worst),
        "unfair, by life": _share(of.fairness_by_life.unfair_share),
        "estimates, median error of the wait": _share(estimates.error_share if estimates else None),
        "estimates made": f"{estimates.with_time:,} of {estimates.count:,}" if estimates else "",
        "started by the latest start predicted": _share(estimates.in_time_share if estimates else None),
        "promised shares kept": f"{promises.kept:,} of {promises.granted:,}" if promises else "",
        "least part of one given": _share(promises.least_share if promises else None),
        "utilisation, blocks one at a time": _share(promises.one_at_a_time if promises else None),
        "cost of rented machines": f"{rentals.cost:,.2f}" if rentals else "",
        **{title: _change(saved.get(name)) for name, title in SAVED.items()},
        "jobs that rented": f"{rentals.jobs:,}" if rentals else "",
        "jobs without an offer": f"{rentals.without_offer:,}" if rentals else "",
        "machine-hours rented": f"{rentals.machine_hours:,.1f}" if rentals else "",
        "jobs ended": f"{of.ended:,}",
        "jobs not ended": f"{of.unfinished:,}" if of.unfinished else "",
        "jobs that failed": f"{of.failed:,}" if of.failed else "",
        "jobs that never fit": f"{of.never_fits:,}" if of.never_fits else "",
    }


def _change(seconds: float | None) -> str:
    return "" if seconds is None else duration(seconds) if seconds >= 0 else f"-{duration(-seconds)}"


def _seconds(value: float | None) -> str:
    return "" if value is None else f"{value:,.0f}"


def _ratio(value: float | None) -> str:
    return "" if value is None else f"{value:,.2f}"


def _share(value: float | None) -> str:
    return "" if value is None else f"{value:.1%}"
