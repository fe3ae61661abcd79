"""Runs as MLflow, which Mantik's users use, shows them: ids, words, times. Found by `registry`."""

from collections.abc import Sequence

from tarmac import api
from tarmac.cli.views.table import table_text
from tarmac.cli.views.terminal import Terminal, one_line
from tarmac.model.summary import RunSummary
from tarmac.systems.display import Display, terminal_columns
from tarmac.systems.listing import report_of
from tarmac.systems.mantik import statuses
from tarmac.systems.mantik.statuses import columns, when

_LABEL_WIDTH = 14


class MantikDisplay(Display):
    """Runs in MLflow's words."""

    status = staticmethod(statuses.status)

    def runs(self, runs: Sequence[RunSummary], terminal: Terminal) -> str:
        return table_text(terminal_columns(columns(None), {}), runs, terminal)

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
            "start_time": when(run.started_at),
            "end_time": when(run.ended_at),
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
