"""Runs as Clusterfudge shows launches: a number, a status, jobs and their replicas.

Found by `registry` under the name clusterfudge, which had a web page but no command: the fields are those of
the page.
"""

from collections.abc import Mapping, Sequence

from tarmac import api
from tarmac.cli.views.messages import worker_cell
from tarmac.cli.views.table import Column, facts_text, table_text
from tarmac.cli.views.terminal import Terminal, one_line
from tarmac.model.progress import WorkerStatus
from tarmac.model.summary import RunSummary
from tarmac.systems.clusterfudge import statuses
from tarmac.systems.clusterfudge.scripts.gateway import request_form
from tarmac.systems.clusterfudge.statuses import COLUMNS
from tarmac.systems.display import Display, facts_of, status_cell, terminal_columns
from tarmac.systems.listing import report_of, utc_time

_COLOURS = {
    "LAUNCH_STATUS_QUEUED": "queued",
    "LAUNCH_STATUS_PENDING": "starting",
    "LAUNCH_STATUS_RUNNING": "running",
    "LAUNCH_STATUS_COMPLETED": "completed",
    "LAUNCH_STATUS_FAILED": "failed",
    "LAUNCH_STATUS_STOPPED": "stopped",
}
"""The state of tarmac whose colour each word has."""


LAUNCHES = terminal_columns(COLUMNS, _COLOURS)


def _processes(run: api.Run) -> Sequence[Column[WorkerStatus]]:
    """The columns of the processes of a run."""
    return (
        Column("JOB", lambda worker, _: _short_name(run, worker.role)),
        Column("REPLICA", lambda worker, _: worker.replica, right=True),
        Column("PROCESS", lambda worker, _: worker.index, right=True),
        Column("NODE", lambda worker, _: worker.node),
        Column("PID", lambda worker, _: worker.pid or "", right=True),
        Column("STATE", lambda worker, _: worker_cell(worker)),
    )


class ClusterfudgeDisplay(Display):
    """A list of launches, and one launch with its processes."""

    status = staticmethod(statuses.status)

    def runs(self, runs: Sequence[RunSummary], terminal: Terminal) -> str:
        return table_text(LAUNCHES, runs, terminal)

    def run(self, run: api.Run, attempts: Sequence[api.Attempt], terminal: Terminal) -> str:
        form = request_form(run.id, run.name, run.spec, str(run.source))
        status = status_cell(self.status(report_of(run)), _COLOURS)
        fields = {
            "Launch": str(form["launch_id"]),
            "Id": form["id"],
            "Run": run.id,
            "Title": one_line(str(form["title"])),
            "Description": one_line(str(form["description"])),
            "Status": terminal.paint(status.text, status.style),
            "Message": one_line(run.cause.message if run.cause is not None else ""),
            "Launched by": run.user,
            "Submitted": utc_time(run.created_at),
            "Script": str(facts_of(run).get("launch_script") or ""),
            "Deployment": _deployment(run),
            "Cluster": "" if run.spec.get("rehearsal") else form["cluster"],
            "Shard": form["shard"],
            "Hostnames": ", ".join(form["hostnames"]),
            "Jobs": ", ".join(f"{each['short_name']} x {each['replicas']}" for each in form["jobs"]),
        }
        workers = attempts[-1].workers if attempts else ()
        table = table_text(_processes(run), workers, terminal) if workers else ""
        return facts_text(fields, terminal, width=13) + (f"\n\n{table}" if table else "")

    def log_prefix(self, run: api.Run, chunk: api.LogChunk) -> str | None:
        return f"{_short_name(run, chunk.role)}.{chunk.replica}.{chunk.worker} | "


DISPLAY = ClusterfudgeDisplay()


def _short_name(run: api.Run, role: str) -> str:
    """The role's name in the launch."""
    names = facts_of(run).get("short_names")
    return str(names.get(role, role)) if isinstance(names, Mapping) else role


def _deployment(run: api.Run) -> str:
    code = run.spec.get("code") or {}
    if "url" not in code:
        return f"local directory {code['path']}" if "path" in code else ""
    at = run.code_commit or code.get("commit") or code.get("branch") or ""
    return f"{code['url']} at {at}" if at else str(code["url"])
