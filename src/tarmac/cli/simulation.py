"""The work of `tarmac simulate`: reads settings from its options, plays traces, prints results.

Called by `commands.simulate`, which imports this when it is needed.
"""

import os
import re
import signal
import sys
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from math import isfinite
from mmap import mmap
from pathlib import Path

import click
from msgspec import structs

from tarmac.cli.dialogue import answer, connect, remark, wants_json
from tarmac.cli.runfile import read_text
from tarmac.cli.selecting import pages
from tarmac.cli.views.bars import PlayBar
from tarmac.cli.views.errors import INTERRUPTED, written
from tarmac.cli.views.playplot import DAY_S, plot
from tarmac.cli.views.plotting import require_plotting
from tarmac.cli.views.simview import Published, comparison, document, never_fits_remarks, wide_table
from tarmac.cli.views.terminal import stdout_terminal
from tarmac.dialects.clusterfile import read_cluster
from tarmac.model.cluster import Cluster, Policy
from tarmac.model.errors import InvalidInput, Problem
from tarmac.model.lifecycle import RunState
from tarmac.simulator.changes import SWITCH, Situation, changed, policy_of
from tarmac.simulator.comparing import Result, Setting, play_all
from tarmac.simulator.forms import Window, columns_of, is_number
from tarmac.simulator.history import busiest, cluster_of, trace_of
from tarmac.simulator.jobrows import check_path, write_rows
from tarmac.simulator.jobs import Trace
from tarmac.simulator.playing import Rules
from tarmac.simulator.renting import BurstRules, read_rules
from tarmac.simulator.shapes import MOST_NODES, MOST_SLOTS, shape_of
from tarmac.simulator.traces import parse_time, read_trace

DATE_CHARACTERS = len("2017-10-01")


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """The plays that the options of one call request, and the form of their results."""

    traces: tuple[str, ...]
    form: str | None
    columns: str | None
    cluster: str | None
    policies: str | None
    preemption: str
    since: str | None
    until: str | None
    limits: float | None
    restart_s: float
    what_if: tuple[str, ...]
    burst: tuple[str, ...]
    history: bool
    estimates: bool
    as_table: bool
    published: tuple[str, ...]
    rows_to: str | None
    plot_to: str | None


def run_simulation(request: Request) -> None:
    """Play the requested traces and print the results; exits if interrupted.

    Files are written after the figures, which took longer to compute.
    """
    if request.plot_to is not None:
        check_path("--plot", request.plot_to)
        require_plotting(request.plot_to)
    if request.rows_to is not None:
        check_path("--jobs", request.rows_to)
    named = _published(request.published)
    settings = [replace(setting, each_job=request.rows_to is not None) for setting in _settings(request)]
    with (
        _interruption() as interruption,
        closing(PlayBar.on_stderr(quiet=wants_json() and not sys.stdout.isatty())) as bar,
    ):
        results = play_all(
            settings, workers=len(os.sched_getaffinity(0)), interruption=interruption, progress=bar.show
        )
    played = list(zip(settings, results, strict=True))
    _answer(played, named, request)
    if request.plot_to is not None:
        with written("--plot", request.plot_to, InvalidInput):
            plot(played, Path(request.plot_to))
        remark(f"drawn: {request.plot_to}")
    if request.rows_to is not None:
        rows = ((setting.trace.name, setting.label, result.rows) for setting, result in played)
        with written("--jobs", request.rows_to, InvalidInput):
            write_rows(rows, Path(request.rows_to))
        remark(f"{sum(len(result.rows) for _, result in played)} jobs written: {request.rows_to}")
    if interruption[0]:
        remark("interrupted: this is what was known by then")
        sys.exit(INTERRUPTED)


def _answer(played: Sequence[tuple[Setting, Result]], named: dict[str, float], request: Request) -> None:
    for line in never_fits_remarks(played) if not wants_json() else ():
        remark(line)
    published = [Published(policy=name, completion_s=value) for name, value in named.items()]
    wide = wide_table(played, lambda _: published, stdout_terminal())
    text = wide if request.as_table else comparison(played, named, stdout_terminal())
    answer(document(played, named), text)


def _settings(request: Request) -> list[Setting]:
    """The requested plays: each trace under each policy, before and after each change, and with rentals."""
    if bool(request.traces) == request.history:
        raise click.UsageError("name traces to play, or --history for what ended on your own cluster")
    if request.limits is not None and not isfinite(request.limits):
        raise click.UsageError(f"--limits {request.limits}: a factor of 1 or more, such as 1.5")
    renting = {text: _burst(text) for text in request.burst}
    described = _cluster(request.cluster) if request.cluster is not None else None
    settings = []
    for trace, own in [_history()] if request.history else _traces(request):
        for policy in _policies(request):
            rules = Rules(
                policy=policy,
                preemption=SWITCH.get(request.preemption),
                limit_factor=request.limits,
                restart_s=request.restart_s,
                estimates=request.estimates,
            )
            before = Situation(cluster=described or own, rules=rules)
            situations = {"": before} | {words: changed(before, words) for words in request.what_if}
            for text, burst in renting.items():
                situations[text] = Situation(
                    cluster=before.cluster, rules=structs.replace(rules, renting=burst)
                )
            settings += [
                Setting(
                    label=", ".join(filter(None, (policy, words))) or "as it is",
                    trace=trace,
                    cluster=situation.cluster,
                    rules=situation.rules,
                )
                for words, situation in situations.items()
            ]
    return settings


def _policies(request: Request) -> list[Policy | None]:
    """The policies: by default all; None for the rules of the user's own cluster; one for a question."""
    if request.policies is not None:
        return [policy_of(word) for word in request.policies.split(",")]
    if request.history:
        return [None]
    return [Policy.PRIORITY] if request.what_if else list(Policy)


def _traces(request: Request) -> Iterator[tuple[Trace, Cluster]]:
    """The traces with the clusters they were published for; raises all problems at once."""
    columns = columns_of(request.columns) if request.columns is not None else None
    window = _window(request.since, request.until)
    problems: list[Problem] = []
    found: list[tuple[Trace, Cluster]] = []
    for path in request.traces:
        try:
            trace = read_trace(path, form=request.form, columns=columns, window=window)
        except InvalidInput as error:
            problems += error.problems
            continue
        if trace.left_out:
            remark(f"{path}: jobs without a running time or processors, which are left out: {trace.left_out}")
        shape = shape_of(trace.cluster) if trace.cluster is not None else None
        if shape is None and request.cluster is None:
            message = "this trace names no cluster that can be played: name one with --cluster, such as 64x8"
            problems.append(Problem(message=message, file=path))
        found.append((trace, shape or Cluster(name="", groups=())))
    if problems:
        raise InvalidInput(problems)
    yield from found


def _history() -> tuple[Trace, Cluster]:
    """The ended runs of the server in this environment, and its cluster."""
    client = connect()
    ended = list(pages(client, None, {"states": [RunState.ENDED], "everything": True}))
    attempts = {run.id: client.attempts(run.id) for run in ended if run.attempt > 1}
    name = busiest(ended)
    return trace_of(ended, attempts, name), cluster_of(name, client.nodes(), client.clusters())


def _cluster(text: str) -> Cluster:
    """The cluster of a shape or of a description file."""
    shape = shape_of(text)
    if shape is not None:
        return shape
    if re.fullmatch(r"\d+x\d+", text):
        raise InvalidInput(
            f"--cluster {text!r}: 1 to {MOST_NODES} nodes of 1 to {MOST_SLOTS} slots can be played"
        )
    if not Path(text).exists():
        raise InvalidInput(f"--cluster {text!r} is neither nodes x slots, such as 64x8, nor a file")
    return read_cluster(read_text(text, what="a cluster file").text, filename=text).cluster


def _burst(text: str) -> BurstRules:
    """The rules of a declaration, given as its text or as a file."""
    if ":" in text:
        return read_rules(text)
    return read_rules(read_text(text, what="a declaration of rentals").text, filename=text)


def _window(since: str | None, until: str | None) -> Window | None:
    """The requested dates; a day as the end includes that day."""
    if since is None and until is None:
        return None
    end = _moment("--to", until)
    if end is not None and until is not None and len(until) == DATE_CHARACTERS:
        end += DAY_S
    return Window(since=_moment("--from", since), until=end)


def _moment(option: str, text: str | None) -> float | None:
    at = parse_time(text) if text is not None else None
    if text is not None and at is None:
        raise InvalidInput(f"{option} {text!r}: write a date such as 2017-10-01")
    return at


def _published(words: Sequence[str]) -> dict[str, float]:
    """Published results that the user passes: a name and a mean completion time in seconds."""
    found = {}
    for item in words:
        name, _, value = item.rpartition("=")
        if not name or not is_number(value) or not isfinite(float(value)):
            raise InvalidInput(f"--published {item!r} is not of the form NAME=SECONDS")
        found[name] = float(value)
    return found


@contextmanager
def _interruption() -> Iterator[mmap]:
    """A byte that becomes 1 at Ctrl-C, which the processes of plays share; a second one ends everything."""
    interruption = mmap(-1, 1)

    def interrupted(_number: int, _frame: object) -> None:
        if interruption[0]:
            raise KeyboardInterrupt
        interruption[0] = 1

    before = signal.signal(signal.SIGINT, interrupted)
    try:
        yield interruption
    finally:
        signal.signal(signal.SIGINT, before)
