"""One script of the torture of checkpoints, from its first run to its last: how it is ended, and judged.

Used by `checkpoint_torture.py`.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, nullcontext, suppress
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

from checkpoint_audit import Audit, write_record, wrong_report
from checkpoint_count import (
    IN_THE_MOMENT,
    LOST,
    REPORT,
    SILENT,
    STUCK,
    TORN,
    WITH_NODE,
    WITH_RUNNER,
    Case,
    Ledger,
)
from checkpoint_prelude import PRELUDE
from checkpoint_run import CUT_PATIENCE_S, PlayedRun, Stuck, parent_of, strike
from checkpoint_ways import Way

from tarmac import api
from tarmac.client import Client
from tarmac.control.decisions.counting import MAX_FAULTS
from tarmac.model.progress import Loss
from tarmac.node.attempt.protocol import HEARTBEAT_PERIOD_S
from tarmac.node.kernel import procfs

MOMENT_S = 0.05
ELSEWHERE = 0.3
"""How often a run whose runner was struck has to go on on another node."""
DOUBT_S = HEARTBEAT_PERIOD_S + 5.0
CLUSTER = "torture"
RUN = """\
name: {name}
cluster: {cluster}
slots: 1
code: {code}
pause: {{grace: 1s}}
artifacts: {{checkpoint_every: {every}s}}
env: {{LEDGER: {ledger}, SEED: "{seed}", OTHER_DISK: {other_disk}, OMP_NUM_THREADS: "1"}}
command: exec {python} {launcher} train.py
{more}"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """One lineage: its way of saving, its number, which seeds all that is drawn, and its endings in order."""

    name: str
    way: Way
    number: int
    ends: Sequence[str]
    python: str


@dataclass(slots=True, kw_only=True)
class Place:
    """Where all lineages are played."""

    directory: Path
    home: Path
    other_disk: Path
    seed: int
    cases: list[Case] = field(default_factory=list)


class Lineage(PlayedRun):
    """A script, its ledger and its newest run."""

    def __init__(
        self, place: Place, client: Client, plan: Plan, more: str = "", *, cuts: bool = True
    ) -> None:
        self.place, self.plan, self.way = place, plan, plan.way
        self.random = Random(place.seed * 10_000 + plan.number)
        self.label = f"t{plan.number}"
        self.code = place.directory / f"code{plan.number}"
        self.code.mkdir()
        (self.code / "train.py").write_text(PRELUDE + self.way.body)
        self.ledger = Ledger(place.directory / f"ledger{plan.number}.txt")
        self.every_s = self.random.choice((1, 2, 600))
        self.audit = Audit(place.home, self.code, plan.python)
        self.starts = self.losses = self.cuts_before = 0
        self.runs: list[str] = []
        self.cut = False
        self.case: Case | None = None
        self.judged_attempt: tuple[str, int] = ("", 0)
        self.ended_at = 0.0
        self.report_while_paused: Loss | None = None
        if cuts:
            self.choose_cut()
        super().__init__(client, self.submit(client, more))

    def submit(self, client: Client, more: str = "") -> api.Run:
        """A run of this script."""
        source = RUN.format(
            name=self.label,
            cluster=CLUSTER,
            code=self.code,
            every=self.every_s,
            ledger=self.ledger.path,
            seed=f"{self.place.seed}.{self.plan.number}.{self.starts}",
            other_disk=self.place.other_disk,
            python=self.plan.python,
            launcher=self.way.launcher,
            more=more,
        )
        self.starts += 1
        run = client.submit(source, directory=self.place.directory)
        self.runs.append(run.id)
        return run

    def play(self) -> None:
        """Its endings, one after the other; each is judged once the next start has found something."""
        try:
            for number, end in enumerate(self.plan.ends):
                self.wait_until_found()
                if not self.judge():
                    self.begin_anew()
                self.case = Case(way=self.plan.name, end=end, name=f"{self.label}.{number}")
                self.place.cases.append(self.case)
                self.wait_for_moment(end)
                self.case.cut = self.ledger.cuts[-1] if self.ledger.cuts and self.cut else "at any time"
                self.choose_cut()
                self.end_by(end)
            self.wait_until_found()
            self.judge()
            self.client.stop(self.run.id)
            self.wait_for_state("ended")
            self.clear_disks()
        except Exception as error:  # noqa: BLE001 - a lineage ends by it, and it counts
            self.take_stuck(error)

    # --- the moment of the end

    def choose_cut(self) -> None:
        """Where the next start is to stop in a save: that is written beside the ledger. Or nowhere."""
        path = self.ledger.path.with_name(f"{self.ledger.path.name}.cut")
        self.cut = self.random.random() < (0.5 if self.way.heavy else 0.75) and not self.way.at_the_end
        text = f"{self.random.randint(1, 3)} {self.random.random():.6f}"
        if self.cut:
            path.write_text(text)
        else:
            path.unlink(missing_ok=True)
        self.cuts_before = len(self.ledger.cuts)

    def wait_for_moment(self, end: str) -> None:
        """Until the script has come to its cut, or for a random moment; often until something is stored."""
        wait_for_version = self.random.random() < 0.5 and self.every_s < 60
        by_chance_s = self.random.uniform(0.0, 2.0)
        if self.cut and end != "disk":
            self.wait_at_most(lambda: self.ledger.look() > 0 and len(self.ledger.cuts) > self.cuts_before)
        else:
            time.sleep(by_chance_s)
        if wait_for_version:
            self.wait_at_most(lambda: bool(self.checkpoints()))

    def end_by(self, end: str) -> None:
        """End the attempt in that way, and see to it that another start follows."""
        if self.losses == MAX_FAULTS and end in ("runner", "node"):
            self.stop()  # one more fault, and the run would not be tried again
            self.wait_until_found()
        attempt = self.client.attempts(self.run.id)[-1]
        self.judged_attempt, self.report_while_paused = (self.run.id, attempt.number), None
        actions = {
            "pause": self.pause,
            "move": self.move,
            "stop": self.stop,
            "worker": self.kill_worker,
            "runner": self.kill_runner,
            "node": self.kill_node,
            "disk": self.fill_disk,
        }
        actions[end]()

    # --- the ways of ending

    def pause(self, before_resuming: Callable[[], object] = lambda: None) -> None:
        """Off its node, and on again, wherever that may be."""
        self.ended_at = time.time()
        self.client.pause(self.run.id)
        state = self.wait_for_state("paused", "ended")
        self.check_words()
        self.report_while_paused = self.client.attempts(self.run.id)[-1].lost
        before_resuming()
        if state == "ended":  # it left with a code that means a failure
            self.go_on()
        else:
            self.starts += 1
            self.client.resume(self.run.id)

    def move(self) -> None:
        """Off its node, and on to another."""
        with ExitStack() as held:
            node = self.node()
            self.pause(lambda: held.enter_context(self.drained(node)))
            self.wait_until_found()

    def stop(self) -> None:
        """Stopped by its user; a new run goes on from what was kept."""
        self.client.stop(self.run.id)
        self.wait_for_state("ended")
        self.check_words()
        self.go_on()

    def kill_worker(self) -> None:
        """A worker, or what it has started, is struck from outside; a new run goes on from what was kept."""
        pid = self.worker()
        below = [process.pid for process in procfs.descendants(pid)]
        if self.way.bare:
            self.ledger.excuse(time.time() - MOMENT_S, IN_THE_MOMENT)
        self.ended_at = time.time()
        strike(self.random.choice([pid, *below]))
        if below:
            time.sleep(0.2)
            strike(pid)
        self.wait_for_state("ended")
        self.check_words()
        self.go_on()

    def kill_runner(self) -> None:
        """Its runner is struck: the run goes on by itself, from what its node has, or from the last sync.

        Sometimes on another node, so that a later attempt may come back to the files of this one.
        """
        attempt = self.client.attempts(self.run.id)[-1]
        runner = parent_of(self.worker())
        kept = bool(self.checkpoints())
        now = self.ended_at = time.time()
        self.ledger.excuse((now - DOUBT_S if kept else 0.0) if self.way.bare else now, WITH_RUNNER)
        with self.drained(self.node()) if self.random.random() < ELSEWHERE else nullcontext():
            strike(runner)
            last = self.wait_for_next(attempt)
        if last.nodes != attempt.nodes:  # what a node had not synced is not owed by another
            self.ledger.excuse(0.0, WITH_NODE)

    def kill_node(self) -> None:
        """All of its processes are struck, and its disk is gone: what the store has is what is left."""
        attempt = self.client.attempts(self.run.id)[-1]
        node, runner = self.node(), parent_of(self.worker())
        with self.drained(node):
            below = [process.pid for process in procfs.descendants(runner)]
            self.ended_at = time.time()
            for pid in (runner, *below):
                strike(pid)
            disk = self.place.home / "disks" / node / self.run.id
            disk.rename(disk.with_name(f"{disk.name}.gone"))
            self.audit.look(self.run.id)
            kept = self.audit.newest_step
            self.ledger.excuse(self.ledger.saved_at(kept) or self.ledger.newest_before(kept), WITH_NODE)
            # The version before is owed, whatever its script has begun to write over.
            self.ledger.begun = False
            self.wait_for_next(attempt)
        shutil.rmtree(disk.with_name(f"{disk.name}.gone"), ignore_errors=True)

    def fill_disk(self) -> None:
        """The disk of its node fills up: a save fails, and so does the script. Then there is room again."""
        disk = self.place.home / "disks" / self.node()
        if not disk.is_mount():
            raise Stuck(f"{disk} is no disk of its own: it is not filled")
        ballast = disk / "ballast"
        deadline = time.monotonic() + CUT_PATIENCE_S
        with ballast.open("wb", buffering=0) as file:
            while time.monotonic() < deadline and self.worked_until() is None:
                with suppress(OSError):
                    while file.write(bytes(self.random.randint(1, 40_000))):
                        pass
                time.sleep(0.01)
        ballast.unlink()
        if self.worked_until() is None:  # it stands in a cut, or saves elsewhere
            self.pause()
            # A full disk notes no end: it may have failed before the pause, and another run goes on.
            self.ended_at = min(self.ended_at, self.worked_until(self.judged_attempt) or self.ended_at)
            return
        self.wait_for_state("ended")
        self.ended_at = self.worked_until() or 0.0
        self.check_words()
        self.go_on()

    @contextmanager
    def drained(self, node: str) -> Iterator[None]:
        """Nothing starts on that node meanwhile."""
        self.client.drain(node, cluster=CLUSTER)
        try:
            yield
        finally:
            self.client.undrain(node, cluster=CLUSTER)

    def wait_for_next(self, attempt: api.Attempt) -> api.Attempt:
        """Until the attempt after that one has started; that one."""
        self.starts, self.losses = self.starts + 1, self.losses + 1

        def goes_on() -> bool:
            last = self.client.attempts(self.run.id)[-1]
            return last.started_at is not None and last.number > attempt.number

        self.wait_for(goes_on, "attempt after a lost one")
        return self.client.attempts(self.run.id)[-1]

    def go_on(self) -> None:
        """A new run from what was kept."""
        self.losses = 0
        inputs = f"input_artifacts: [{self.run.id}]\n" if self.checkpoints() else ""
        self.run = self.submit(self.client, inputs)

    # --- judging

    def judge(self) -> bool:
        """Whether the case that is over left all saves whole, and its report of loss is true."""
        case = self.case
        if case is None:
            return True
        run, number = self.judged_attempt
        attempts = self.client.attempts(run)
        attempt = attempts[number - 1]
        step = max(self.ledger.found_step, 0)
        for reported in (self.report_while_paused, attempt.lost):
            if reported is not None:
                case.reported = True
                text = wrong_report(reported, attempt, self.ended_at, step, self.ledger, grows=self.way.grows)
                case.problems += [(REPORT, text)] if text else []
                if text:
                    break
        if not self.way.heavy:
            self.audit.look(run)
        case.problems += [(LOST, text) for text in self.ledger.lost]
        case.problems += [(TORN, text) for text in (*self.ledger.torn, *self.audit.torn)]
        if case.problems:
            where = self.place.directory / "records" / f"{case.name}.txt"
            write_record(where, case, self.ledger, attempts, self.audit.listing(run))
        self.ledger.lost, self.ledger.torn, self.audit.torn = [], [], []
        self.case = None
        return not case.problems

    def begin_anew(self) -> None:
        """A new run with nothing kept: what went wrong in one case is not counted again in the next."""
        self.client.stop(self.run.id, now=True)
        self.wait_for_state("ended")
        self.ledger.forget()
        self.audit.newest_step = self.losses = 0
        self.run = self.submit(self.client)
        self.wait_until_found()

    def take_stuck(self, error: Exception) -> None:
        """The lineage ends here; what it had lost before counts, too."""
        if self.case is None:
            self.case = Case(way=self.plan.name, end=self.plan.ends[0], name=f"{self.label}.start")
            self.place.cases.append(self.case)
        self.ledger.look()
        self.case.problems.append((STUCK, f"{type(error).__name__}: {error}"))
        self.case.problems += [(TORN, text) for text in self.ledger.torn]
        with suppress(Exception):
            where = self.place.directory / "records" / f"{self.case.name}.txt"
            attempts = self.client.attempts(self.run.id)
            write_record(where, self.case, self.ledger, attempts, self.audit.listing(self.run.id))
            self.client.stop(self.run.id, now=True)

    def clear_disks(self) -> None:
        """What its runs have left on the nodes: the disks are small."""
        for run in self.runs:
            for directory in (self.place.home / "disks").glob(f"*/{run}"):
                shutil.rmtree(directory, ignore_errors=True)

    def check_words(self) -> None:
        """What was cut short is said; and where something is owed, something is kept."""
        self.ledger.look()
        attempt = self.client.attempts(self.run.id)[-1]
        texts = " ".join(notice.text for notice in attempt.notices)
        kept = self.checkpoints()
        out = kept[-1].left_out if kept and kept[-1].attempt == attempt.number else []
        if self.case is None:
            return
        if out and "being written when the attempt ended" not in texts:
            self.case.problems.append((SILENT, f"{out} left out without a word"))
        if self.ledger.owed and not self.ledger.begun and not kept and not texts:
            self.case.problems.append((SILENT, "nothing kept without a word"))

    def wait_until_found(self) -> None:
        def found() -> bool:
            if self.ledger.look() >= self.starts:
                return True
            if self.client.run(self.run.id).state == "ended":
                raise Stuck(f"{self.run.id} ended before its script found anything")
            return False

        self.wait_for(found, "start")
