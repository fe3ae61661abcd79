"""The output for a follower: workers' output on stdout, notes dimmed on stderr; or JSON lines.

`TextView` and `JsonView` take the same calls from `following`, which does not depend on their form.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, TextIO

from msgspec.structs import asdict

from tarmac import api
from tarmac.cli.views import escapes
from tarmac.cli.views.logview import LineRule, LogView, Prefix, WorkerKey
from tarmac.cli.views.messages import ending, submitted_text
from tarmac.cli.views.metricview import report_text
from tarmac.cli.views.terminal import Terminal, one_line

SETUP = "setup"
"""The role under which the setup steps of a node write (docs/using/api.md, LogChunk)."""


class TextView:
    """Text for people. `quiet` (`tarmac logs -f`) omits expected events: the run started, it completed.

    Output of setup steps is not output of the run: it goes to stderr like notes, except with `quiet`.
    `prefix` is another system's prefix of log lines.
    """

    def __init__(
        self,
        out: TextIO,
        err: TextIO,
        *,
        out_terminal: Terminal,
        err_terminal: Terminal,
        quiet: bool = False,
        prefix: Prefix | None = None,
        raw: bool = False,
        rule: LineRule | None = None,
    ) -> None:
        self._logs = LogView(out, out_terminal, prefix, raw=raw, rule=rule)
        self._setup = self._logs if quiet else LogView(err, err_terminal, prefix, raw=raw)
        self._err = err
        self._terminal = err_terminal
        self._cuts_lines = out_terminal.width is not None and err_terminal.width is not None
        self._quiet = quiet
        self._previous: str | None = None
        self._last_from: tuple[str, int, int] | None = None
        self._shown_notices: set[tuple[int | None, str]] = set()

    def submitted(self, run: api.Run) -> None:
        for warning in run.warnings:
            self._write(f"{self._terminal.paint('warning:', 'yellow')} {warning}")
        self._remark(f"{run.name} is run {run.id}{submitted_text(run)}")

    def expect(self, workers: Iterable[WorkerKey]) -> None:
        self._logs.expect(workers)

    def log(self, chunk: api.LogChunk) -> None:
        if chunk.role == SETUP:
            self._setup.write(chunk)
            return
        self._last_from = (chunk.role, chunk.replica, chunk.worker)
        self._logs.write(chunk)

    def state(self, summary: api.RunStatus, nodes: Sequence[str], detail: str = "") -> None:
        text = _state_text(summary, nodes, self._previous, detail)
        self._previous = summary.state
        if text and not (self._quiet and self._previous == "running"):
            self._remark(text)

    def notice(self, notice: api.StreamNotice) -> None:
        """Show a notice; one that several nodes of an attempt send is shown once."""
        key = (notice.attempt, notice.text)
        if notice.node is None or key not in self._shown_notices:
            self._shown_notices.add(key)
            self._remark(one_line(notice.text))

    def waiting(self, why: api.Why) -> None:
        estimate = why.estimate
        place = f"; {why.ahead} ahead of it" if why.ahead else ""
        known = estimate is not None and estimate.start_at is not None
        until = (estimate.text if estimate is not None and known else why.unblocked_by).rstrip(".")
        leave = "" if known else f". Ctrl-C leaves it queued, tarmac stop {why.run_id} ends it"
        self._remark(f"{why.headline}{place}{until and f'. {until}'} (tarmac why {why.run_id}){leave}")

    def report(self, report: api.Report) -> None:
        self._remark(report_text(report))

    def detached(self, run_id: str) -> None:
        self._logs.finish()
        self._write(
            f"tarmac: detached; the run goes on\n"
            f"  follow it again: tarmac logs -f {run_id}\n"
            f"  end it:          tarmac stop {run_id}"
        )

    def end(self, run: api.Run) -> None:
        self.finish()
        cause = run.cause
        failing = (cause.role, cause.replica, cause.worker or 0) if cause is not None else None
        # The failing worker's lines are hard to find among those of several workers: they are shown again.
        shown = failing is not None and self._last_from == failing and not self._logs.mixed
        lines = ending(run, self._terminal, tail_shown=shown)
        if not (self._quiet and run.outcome == "completed"):
            self._write("\n".join(lines))

    def finish(self) -> None:
        self._setup.finish()
        self._logs.finish()

    def _remark(self, text: str) -> None:
        self._write(self._terminal.paint(f"tarmac: {text}", "dim"))

    def _write(self, text: str) -> None:
        """Write to stderr, on a new line even after an unfinished line of a worker on the same screen."""
        if self._cuts_lines and not self._logs.at_line_start:
            text = "\n" + text
            self._logs.at_line_start = True
        self._err.write(escapes.lines_only(text) + "\n")
        self._err.flush()


class JsonView:
    """One JSON object per line for programs, `{"event": ..., ...}` as docs/using/cli.md lists them."""

    def __init__(self, out: TextIO) -> None:
        self._out = out

    def submitted(self, run: api.Run) -> None:
        self._line("submitted", run=run)

    def expect(self, workers: Iterable[WorkerKey]) -> None:
        """Do nothing: programs distinguish workers by their fields."""

    def log(self, chunk: api.LogChunk) -> None:
        self._line("log", **asdict(chunk))

    def state(self, summary: api.RunStatus, nodes: Sequence[str], detail: str = "") -> None:  # noqa: ARG002 words
        self._line("state", run=summary, nodes=list(nodes))

    def notice(self, notice: api.StreamNotice) -> None:
        self._line("notice", **asdict(notice))

    def waiting(self, why: api.Why) -> None:
        self._line("waiting", why=why)

    def report(self, report: api.Report) -> None:
        self._line("report", **asdict(report))

    def detached(self, run_id: str) -> None:
        self._line("detached", run_id=run_id)

    def end(self, run: api.Run) -> None:
        self._line("end", run=run)

    def finish(self) -> None:
        """Do nothing: every line has been written already."""

    def _line(self, event: str, **fields: Any) -> None:
        self._out.write(escapes.json_text({"event": event, **fields}) + "\n")
        self._out.flush()


def _state_text(
    summary: api.RunStatus, nodes: Sequence[str], previous: str | None, detail: str
) -> str | None:
    """The text for a new state, with `detail`; None for a short wait."""
    state, attempt, identifier = summary.state, summary.attempt, summary.id
    if state == previous:
        return None
    if state == "running":
        where = f" on {', '.join(nodes)}" if nodes else ""
        return f"running{where}" + (
            f", {detail}" if detail else f", attempt {attempt}" if attempt > 1 else ""
        )
    if state == "queued" and detail:
        return "queued again" if previous == "preempting" else f"{detail}; queued again"
    if state == "queued" and attempt:
        return "queued again" + (f": {summary.message}" if summary.message else "")
    return {
        "pausing": "pausing: its workers have been asked to leave",
        "paused": f"paused{detail and f' (lost: {detail})'}; it goes on with: tarmac resume {identifier}",
        "preempting": f"{detail or 'preempted'}: its workers have been asked to leave",
        "stopping": "stopping: its workers have been asked to leave",
    }.get(state)
