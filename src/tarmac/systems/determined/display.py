"""Runs as Determined shows experiments: `det experiment list` and `describe`. Found by `registry`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tarmac import api
from tarmac.cli.views.terminal import Terminal, columns, one_line
from tarmac.client import Client
from tarmac.model.summary import RunSummary
from tarmac.systems.determined.identity import experiment_id, trial_id
from tarmac.systems.determined.statuses import COLUMNS, of_tarmac, queue_word, status, time_text
from tarmac.systems.display import Display, facts_of
from tarmac.systems.listing import report_of

_MOST = 500
"""Maximum number of runs whose numbers are requested at once."""

_TRIAL_HEADS = ("Trial ID", "State", "H-Params", "Run", "Restarts", "Nodes", "Started", "Ended")


class DeterminedDisplay(Display):
    """A list of experiments, and one experiment with its trial."""

    status = staticmethod(status)

    def __init__(self, numbers: Mapping[str, api.Numbers] | None = None) -> None:
        self._numbers = numbers or {}

    def prepared(self, client: Client, run_ids: Sequence[str]) -> DeterminedDisplay:
        known: dict[str, api.Numbers] = {}
        for at in range(0, len(run_ids), _MOST):
            known |= client.numbers(run_ids[at : at + _MOST])
        return DeterminedDisplay(known)

    def runs(self, runs: Sequence[RunSummary], terminal: Terminal) -> str:  # noqa: ARG002 the port's
        rows = [[one_line(column.text(run, self._experiment(run))) for column in COLUMNS] for run in runs]
        return _table([column.title for column in COLUMNS], rows)

    def run(self, run: api.Run, attempts: Sequence[api.Attempt], terminal: Terminal) -> str:  # noqa: ARG002 the port's
        config = _config(run)
        fields = {
            "ID": str(self._experiment(run) or experiment_id(run.id)),
            "Name": one_line(str(config.get("name") or run.name)),
            "Description": one_line(str(config.get("description") or "")),
            "Labels": ", ".join(config.get("labels") or ()),
            "State": self.status(report_of(run)),
            "Started": time_text(run.started_at),
            "Ended": time_text(run.ended_at),
            "Resource Pool": run.pool or run.spec.get("target", {}).get("pool"),
            "Workspace": config.get("workspace"),
            "Project": config.get("project"),
            "Searcher": (config.get("searcher") or {}).get("name") or "single",
            "Slots per trial": str(run.slots),
            "Restarts left": str(max(0, run.spec.get("retries", 0) - run.failures)),
            "Run": run.id,
        }
        lines = [f"{name:<16} {value}" for name, value in fields.items() if value]
        return "\n".join((*lines, "", _table(_TRIAL_HEADS, [self._trial(run, attempts)])))

    def _experiment(self, run: api.Run | RunSummary) -> int | None:
        """The number of the experiment in the gateway."""
        numbers = self._numbers.get(run.id)
        return numbers.experiment if numbers is not None else None

    def _trial(self, run: api.Run, attempts: Sequence[api.Attempt]) -> Sequence[str]:
        """The one trial of the searcher `single`, from its newest attempt."""
        newest, numbers = attempts[-1] if attempts else None, self._numbers.get(run.id)
        parameters = (_config(run).get("hyperparameters") or {}).items()
        constants = {
            name: value.get("val")
            for name, value in parameters
            if isinstance(value, Mapping) and "val" in value
        } or (run.spec.get("parameters") or {})
        return (
            str(numbers.trial if numbers is not None else trial_id(run.id)),
            self.status(report_of(run)),
            ", ".join(f"{name}={value}" for name, value in constants.items()),
            str(run.attempt),
            str(run.failures),
            ", ".join(newest.nodes) if newest else "",
            time_text(run.started_at),
            time_text(run.ended_at),
        )


DISPLAY = DeterminedDisplay()

_QUEUE_HEADS = (
    *("#", "ID", "Type", "Job Name", "Priority", "Submitted"),
    *("Slots (acquired/needed)", "Status", "User"),
)
_RIGHT = frozenset({"#", "Priority"})


def queue_table(runs: Sequence[api.QueueEntry]) -> str:
    """The entries of a pool's queue, in scheduling order, as `det job list` prints them."""
    rows = [
        (
            str(index),
            run.id,
            "TYPE_EXPERIMENT",
            one_line(run.name),
            str(of_tarmac(run.priority)),
            time_text(run.submitted_at)[:19],
            f"{run.slots_acquired}/{run.slots_needed}",
            queue_word(run.state) or "",
            run.user,
        )
        for index, run in enumerate(run for run in runs if queue_word(run.state) is not None)
    ]
    return _table(_QUEUE_HEADS, rows)


def _config(run: api.Run) -> Mapping[str, Any]:
    found: Mapping[str, Any] = facts_of(run).get("config", {})
    return found


def _table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A table with bars between columns and dashes below the heads, as in Determined's command line."""
    widths = [max(columns(row[index]) for row in (heads, *rows)) for index in range(len(heads))]
    rule = "+".join("-" * (width + 2) for width in widths)
    right = [head in _RIGHT for head in heads]
    return "\n".join((_line(heads, widths, right), rule, *(_line(row, widths, right) for row in rows)))


def _line(cells: Sequence[str], widths: Sequence[int], right: Sequence[bool]) -> str:
    blanks = (" " * (width - columns(cell)) for cell, width in zip(cells, widths, strict=True))
    padded = (
        f" {blank}{cell} " if flush else f" {cell}{blank} "
        for cell, blank, flush in zip(cells, blanks, right, strict=True)
    )
    return "|".join(padded).rstrip()
