"""Runs that share a small cluster over time, drawn as it happened. Called by `make sharing`, and by a test.

Three interruptible runs share periods, two cycle runs interrupt them: one that can be paused and resumed, and
one that cannot. Everything is real: a server, its local engine standing for two nodes of two slots, processes
that count, save and read. The clock is short by the settings of the pool alone. Every promise is checked, and
the exit code is 1 if one was broken. Uses a home of its own and leaves nothing behind.
"""

from __future__ import annotations

import json
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from timeline import LEGEND, Row, Stretch, draw

from tarmac import api
from tarmac.client import Client

NODES, SLOTS = 2, 2
COLUMNS = 96
PATIENCE_S = 300.0
LOOK_S = 0.1
PART_S = 0.8
ROUNDING_S = 2e-3
"""Times on record are held against each other, never against a clock: how quick a machine is has no part."""

SETTINGS = """\
[[local]]
nodes = {nodes}
slots = {slots}

[pools.default]
turn = "{turn_s:g}s"
period = "{period_s:g}s"
floor = "1s"
"""

TRAINS = """\
import json, os, sys, time
import tarmac

saves = len(sys.argv) < 2 and os.environ["NODE_RANK"] == "0"
told = {name: value for name, value in os.environ.items() if name.startswith(("STRONG_", "TARMAC_ALL"))}
print(json.dumps(told), flush=True)
found = tarmac.latest_checkpoint()
step = int((found / "step").read_text()) if found else 0
print("at step", step, flush=True)
while not tarmac.should_pause():
    step += 1
    time.sleep(0.05)
    if saves:
        with tarmac.checkpoint(step, keep=2) as directory:
            (directory / "step").write_text(str(step))
"""

RUN_FILE = """\
name: {name}
mode: {mode}
slots: {slots}
{turns}
code: .
pause: {{grace: 5s}}
command: [{python}, -S, train.py{arguments}]
"""


INTERRUPTIBLE = {"wide": 4, "left": 2, "right": 2}
"""Their slots: one needs the whole cluster, two fit side by side."""

PROVES, CARELESS = "proves", "careless"


@dataclass(slots=True)
class Sharing:
    """The story, and what was seen of it. `promised` and `credits` are by run and by when a period began."""

    home: Path
    turn_s: float = 3.0
    period_s: float = 18.0
    periods: int = 2
    promised: dict[str, dict[float, float]] = field(default_factory=dict)
    credits: dict[str, dict[float, float]] = field(default_factory=dict)
    runs: dict[str, api.Run] = field(default_factory=dict)
    rows: dict[str, Row] = field(default_factory=dict)
    ended_at: float = 0.0

    def play(self) -> None:
        """The whole story; afterwards nothing of it runs."""
        self.home.mkdir(parents=True, exist_ok=True)
        settings = SETTINGS.format(nodes=NODES, slots=SLOTS, turn_s=self.turn_s, period_s=self.period_s)
        (self.home / "settings.toml").write_text(settings)
        (self.home / "project").mkdir()
        (self.home / "project" / "train.py").write_text(TRAINS)
        with Client(home=self.home) as client:
            try:
                self._live(client)
            finally:
                self._end(client)

    def told(self, name: str) -> dict[int, dict[str, str]]:
        """What attempts of a run found in their environment, by their own word and number.

        One that was asked to leave in its first moment may say nothing.
        """
        attempts = (self.home / "runs" / self.runs[name].id / "attempts").iterdir()
        logs = {int(path.name): path / "logs/main.0.0.log" for path in attempts}
        texts = {number: log.read_text() for number, log in logs.items() if log.exists()}
        return {number: json.loads(text.partition("\n")[0]) for number, text in texts.items() if "\n" in text}

    def shared_periods(self) -> list[float]:
        """When each whole period began that was shared out between all three."""
        common = set.intersection(*(set(self.promised[name]) for name in INTERRUPTIBLE))
        return sorted(at for at in common if at + self.period_s <= self.ended_at)

    def _live(self, client: Client) -> None:
        for name, slots in INTERRUPTIBLE.items():
            self._submit(client, name, "interruptible", slots)
        first = self._await_shares(client, 0.0)
        second = self._await_shares(client, first)
        self._watch(client, lambda: self._is_well_into(client, "wide", second), "wide runs in its block")
        self._submit(client, PROVES, "cycle", 4)
        self._submit(client, CARELESS, "cycle", 4, arguments=", careless")
        third = self._await_shares(client, second)
        self._watch(client, lambda: self._is_over(client, PROVES, CARELESS), "the cycle runs have ended")
        self._watch(client, lambda: self._has_shared(third), "what was cut is given back")
        self.ended_at = time.time()

    def _end(self, client: Client) -> None:
        """Stop what still runs, and keep what is on record."""
        self.ended_at = self.ended_at or time.time()
        for name in list(self.runs):
            if client.run(self.runs[name].id).state != "ended":
                client.stop(self.runs[name].id)
            self.runs[name] = client.wait(self.runs[name].id, timeout_s=PATIENCE_S)
            self.rows[name] = Row(
                name=name,
                mode=self.runs[name].mode,
                events=client.events(self.runs[name].id),
                promised=self.promised.get(name, {}),
                began={
                    attempt.number: attempt.started_at
                    for attempt in client.attempts(self.runs[name].id)
                    if attempt.started_at is not None
                },
            )
        client.stop_server()

    def _submit(self, client: Client, name: str, mode: str, slots: int, *, arguments: str = "") -> None:
        turns = "max_rapid_cycles: 2" if mode == "cycle" else ""
        source = RUN_FILE.format(
            name=name, mode=mode, slots=slots, python=sys.executable, arguments=arguments, turns=turns
        )
        self.runs[name] = client.submit(source, directory=self.home / "project")

    def _is_over(self, client: Client, *names: str) -> bool:
        """Whether these runs have ended."""
        return all(client.run(self.runs[name].id).state == "ended" for name in names)

    def _has_shared(self, period_at: float) -> bool:
        """Whether this period is over, and the next has been shared out."""
        return all(max(self.promised[name]) > period_at for name in INTERRUPTIBLE)

    def _await_shares(self, client: Client, after: float) -> float:
        """When the next period began, once all three have their share of it."""

        def shared() -> bool:
            return all(max(self.promised.get(name, {}), default=0.0) > after for name in INTERRUPTIBLE)

        self._watch(client, shared, "the next period is shared out")
        return max(self.promised["wide"])

    def _is_well_into(self, client: Client, name: str, period_at: float) -> bool:
        """Whether a run has begun with its block of the period, and had a part of it."""
        last = client.events(self.runs[name].id)[-1]
        return last.event == "started" and last.at > period_at and time.time() - last.at > PART_S

    def _watch(self, client: Client, until: Callable[[], bool], what: str) -> None:
        """Look at the shares until something is so."""
        deadline = time.monotonic() + PATIENCE_S
        while True:
            for name in INTERRUPTIBLE:
                share = client.run(self.runs[name].id).share
                if share is not None:
                    self.promised.setdefault(name, {})[share.period_at] = share.allotted_s
                    self.credits.setdefault(name, {})[share.period_at] = share.credit_s
            if until():
                return
            if time.monotonic() > deadline:
                raise TimeoutError(f"timed out waiting until {what}")
            time.sleep(LOOK_S)


def claims(story: Sharing) -> list[tuple[str, bool]]:
    """What was promised, and whether it was kept."""
    return [
        _completed(story, PROVES, proven=True),
        _completed(story, CARELESS, proven=False),
        (f"{story.periods} whole periods were shared out", len(story.shared_periods()) >= story.periods),
        *_promises(story),
        _resumes_first(story),
        _fits(story),
        *_variables(story),
    ]


def _completed(story: Sharing, name: str, *, proven: bool) -> tuple[str, bool]:
    run = story.runs[name]
    report = run.cycle_report
    assert report is not None
    text = f"{name}: {run.outcome}, pause and resume {'proven' if report.proven else 'unproven'}"
    return text, run.outcome == "completed" and report.proven is proven


def _promises(story: Sharing) -> Iterator[tuple[str, bool]]:
    """Every run had its promised share of every period, or is owed the rest in the next; none was cut."""
    for number, period_at in enumerate(story.shared_periods(), start=1):
        next_at = min((at for at in story.promised["wide"] if at > period_at), default=None)
        if next_at is None:
            continue
        for name in INTERRUPTIBLE:
            promised_s, credit_s = story.promised[name][period_at], story.credits[name][period_at]
            held = story.rows[name].stretches(story.ended_at)
            had_s = sum(each.served_s(period_at, next_at) for each in held)
            owed_s = story.credits[name][next_at]
            text = f"period {number}: {name} was promised {promised_s:.1f} s and had {had_s:.1f} s"
            if owed_s > ROUNDING_S:
                text += f", {owed_s:.1f} s are owed"
            due_s = min(story.period_s, promised_s + credit_s - had_s)
            yield text, owed_s >= due_s - ROUNDING_S
    for name in INTERRUPTIBLE:
        cuts = [each for each in story.rows[name].stretches(story.ended_at) if _is_cut_short(story, each)]
        yield f"{name}: nobody but a cycle run took what it was promised", not cuts


def _is_cut_short(story: Sharing, each: Stretch) -> bool:
    """Whether another interruptible run preempted a run before its promised time was over."""
    others = {story.runs[name].id for name in INTERRUPTIBLE}
    if each.allotted_s is None or each.made_way_for not in others:
        return False
    return each.served_s(0.0, each.ended_at) < each.allotted_s - ROUNDING_S


def _resumes_first(story: Sharing) -> tuple[str, bool]:
    """Who was cut by the cycle runs is the first to go on once they have ended."""
    stretches = {name: story.rows[name].stretches(story.ended_at) for name in INTERRUPTIBLE}
    cutters = {story.runs[name].id for name in (PROVES, CARELESS)}
    cut = {
        name: each.ended_at
        for name, held in stretches.items()
        for each in held
        if each.made_way_for in cutters
    }
    cut_at = min(cut.values(), default=0.0)
    starts = [
        (each.began_at, name) for name, held in stretches.items() for each in held if each.began_at > cut_at
    ]
    _, first = min(starts, default=(0.0, "nobody"))
    text = (
        f"{' and '.join(cut) or 'nobody'} was preempted by the cycle runs; {first} went on first after them"
    )
    return text, first in cut


def _fits(story: Sharing) -> tuple[str, bool]:
    """At no moment more slots were held than there are."""
    held = [
        (story.runs[name].slots, each)
        for name, row in story.rows.items()
        for each in row.stretches(story.ended_at)
    ]
    most = max(
        sum(slots for slots, each in held if each.began_at <= one.began_at < each.ended_at) for _, one in held
    )
    return f"at most {most} of {NODES * SLOTS} slots were held at once", most <= NODES * SLOTS


def _variables(story: Sharing) -> Iterator[tuple[str, bool]]:
    """Every start was told its number, the mode, and the time it had been given."""
    for name, row in story.rows.items():
        told, right = story.told(name), True
        stretches = row.stretches(story.ended_at)
        for each in stretches:
            time_ms = str(round((each.allotted_s or 0.0) * 1000))
            wanted = {
                "STRONG_COMPUTE_MODE": row.mode,
                "STRONG_CYCLE_COUNT": str(each.number),
            }
            if each.allotted_s is not None:
                wanted |= {"STRONG_CYCLE_TIME_MS": time_ms, "TARMAC_ALLOTTED_MS": time_ms}
            silent = each.number not in told
            right = right and (silent or told.get(each.number) == wanted)
        yield f"{name}: the variables were right in all {len(stretches)} starts", right


def main() -> int:
    """Play the story, draw it, say which promises were kept; the exit code."""
    home = Path(tempfile.mkdtemp(prefix="tarmac-sharing-"))
    story = Sharing(home)
    print(f"{NODES} nodes of {SLOTS} slots; turns of {story.turn_s:g} s, periods of {story.period_s:g} s")
    print("three interruptible runs and two cycle runs share them: about a minute", flush=True)
    try:
        story.play()
        made = claims(story)
    except TimeoutError as problem:
        made = [(f"the story goes on: {problem}", False)]
    finally:
        shutil.rmtree(home, ignore_errors=True)
    show(story)
    for text, kept in made:
        print(f"  {'ok    ' if kept else 'BROKEN'}  {text}")
    return 0 if all(kept for _, kept in made) else 1


def show(story: Sharing) -> None:
    """The timeline, and the cycle reports with their milestones."""
    rows = list(story.rows.values())
    began = min(row.events[0].at for row in rows)
    step_s = (story.ended_at - began) / COLUMNS
    print(f"\n{LEGEND}; a character is {step_s:.2f} s, a bar begins a period\n")
    for line in draw(rows, began=began, ended=story.ended_at, period_s=story.period_s, step_s=step_s):
        print(f"  {line}")
    print()
    for name in (PROVES, CARELESS):
        report = story.runs[name].cycle_report if name in story.runs else None
        if report is None:
            continue
        output_s = report.first_output_s
        print(f"  {name}, after {report.turns} turns:")
        print(f"    first output  {'never' if output_s is None else f'after {output_s:.2f} s'}")
        print(f"    checkpoint    {'left whole' if report.committed else 'none left'}")
        print(f"    resumed       {'read by a later turn' if report.resumed else 'never read'}")
    print()


if __name__ == "__main__":
    sys.exit(main())
