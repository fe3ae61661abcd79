"""Runs as MLflow, which Mantik's users use, shows them: ids, words, times. Found by `registry`.

Mantik's documentation has no listing; the fields are those that MLflow stores for a run.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING

from tarmac.cli.views.table import Column, table_text
from tarmac.cli.views.terminal import Terminal, one_line
from tarmac.systems.display import Display
from tarmac.systems.listing import report_of
from tarmac.systems.mantik import statuses

if TYPE_CHECKING:
    from tarmac import api
    from tarmac.model.summary import RunSummary

_LABEL_WIDTH = 14


def _when(at: float | None) -> str:
    return "" if at is None else datetime.fromtimestamp(at).astimezone().strftime("%Y-%m-%d %H:%M:%S")


COLUMNS: Sequence[Column[RunSummary]] = (
    Column("run_id", lambda run, _: run.id),
    Column("run_name", lambda run, _: run.name, flexible=True),
    Column("status", lambda run, _: statuses.status(report_of(run))),
    Column("start_time", lambda run, _: _when(run.started_at)),
    Column("end_time", lambda run, _: _when(run.ended_at)),
)


class MantikDisplay(Display):
    """Runs in MLflow's words."""

    status = staticmethod(statuses.status)

    def runs(self, runs: Sequence[RunSummary], terminal: Terminal) -> str:
        return table_text(COLUMNS, runs, terminal)

    def run(self, run: api.Run, attempts: Sequence[api.Attempt], terminal: Terminal) -> str:  # noqa: ARG002 the port's
        site = run.spec.get("site") or {}
        firecrest = site.get("firecrest") or {}
        resources = {
            "Queue": site.get("queue"),
            "Nodes": site.get("nodes"),
            "CPUsPerNode": site.get("cpus_per_node"),
            "GPUsPerNode": site.get("slots_per_node"),
        }
        fields = {
            "run_id": run.id,
            "run_name": run.name,
            "user_id": run.user,
            "status": self.status(report_of(run)),
            "start_time": _when(run.started_at),
            "end_time": _when(run.ended_at),
            "site": site.get("unicore_url") or firecrest.get("machine"),
            "resources": ", ".join(f"{key} {value}" for key, value in resources.items() if value is not None),
            "image": run.spec.get("environment", {}).get("image"),
            "entry_point": (run.spec["roles"][0]["processes"][0]["command"]).get("script"),
        }
        return "\n".join(
            f"{name:<{_LABEL_WIDTH}}{one_line(str(value))}" for name, value in fields.items() if value
        )

    def log_prefix(self, run: api.Run, chunk: api.LogChunk) -> str | None:  # noqa: ARG002 the port's
        """A batch job has one log."""
        return ""


DISPLAY = MantikDisplay()
