"""`Delays`: a simulated tarmac of interruptible and cycle runs on a machine that is late in everything.

Each loop has its pass seconds late; attempts start and leave slowly; news take their time.
Used by tests/simulation/test_promised_time.py, which holds what was promised against what became of it.
"""

from __future__ import annotations

from dataclasses import dataclass
from random import Random

from actors import ADA
from sim_engine import Behaviour
from simulated import LOOPS, Simulation, nodes, spec
from tarmac.control.service import Submission
from tarmac.model.cluster import LOCAL_CLUSTER, Pool
from tarmac.model.lifecycle import Mode
from tarmac.model.progress import Share
from tarmac.model.run import Attempt
from tarmac.model.spec import PausePolicy
from tarmac.node.attempt.document import Launch

CYCLE_EVERY_S = 300.0
FOREVER_S = 1e9
SLOTS = 4


@dataclass(frozen=True)
class Stay:
    """An attempt as it is on record, and the mode of the run that preempted it (None: none did)."""

    attempt: Attempt
    mode: Mode
    gave_way_to: Mode | None

    def served_s(self, since: float, until: float) -> float:
        """How long its workers ran unasked between two moments."""
        began, asked = self.attempt.started_at, self.attempt.leave_requested_at
        if began is None:
            return 0.0
        over = asked if asked is not None else self.attempt.ended_at
        return max(0.0, min(until, until if over is None else over) - max(began, since))


class Delays:
    """One seeded history. `shares` are those each run was seen to be granted, oldest first.

    `wide`: every interruptible run asks for the whole cluster, so that nobody can run beside another.
    """

    def __init__(self, seed: int, *, wide: bool, floor_s: float = 5.0) -> None:
        self._random = random = Random(seed)
        self.rules = Pool(
            cluster=LOCAL_CLUSTER, turn_s=20.0, period_s=240.0, floor_s=floor_s, guaranteed_s=20.0
        )
        self.simulation = Simulation(
            behaviour=self._behaviour,
            cluster=nodes(2, SLOTS // 2),
            pools=[self.rules],
            news_delay_s=random.choice((0.0, 2.0)),
        )
        self._slowness = random.choice((1.0, 3.0, 8.0))
        self._submitted = 0
        sizes = (SLOTS,) if wide else (1, 2, 2, SLOTS)
        self.shared = [self._submit(Mode.INTERRUPTIBLE, random.choice(sizes)) for _ in range(3)]
        self.cycles: list[str] = []
        self.shares: dict[str, list[Share]] = {run_id: [] for run_id in self.shared}

    def play(self, periods: int) -> None:
        """Let so many periods pass; cycle runs come at moments drawn."""
        random, clock = self._random, self.simulation.clock
        until = clock.now() + periods * self.rules.period_s
        while clock.now() < until:
            gap_s = 2.0 * random.random() * self._slowness
            if random.random() < gap_s / CYCLE_EVERY_S:
                self.cycles.append(self._submit(Mode.CYCLE, random.choice((2, SLOTS))))
            for loop in random.sample(LOOPS, k=random.randint(1, len(LOOPS))):
                self.simulation.server.turn(loop)
                self._note_shares()
            clock.advance(gap_s)
        for _ in range(150):  # the cycle runs have their turns out
            clock.advance(3.0)
            self.simulation.turn_all()
            self._note_shares()

    def stays(self, run_id: str) -> list[Stay]:
        """All attempts of a run."""
        store = self.simulation.store
        run = store.run(run_id)
        for_of = {}
        number = 0
        for event in store.events(run_id):
            number = event.detail.get("attempt", number)
            if "for" in event.detail:
                for_of[number] = store.run(event.detail["for"]).spec.mode
        return [
            Stay(attempt, run.spec.mode, for_of.get(attempt.number)) for attempt in store.attempts(run_id)
        ]

    def is_cut(self, stay: Stay) -> bool:
        """Whether an attempt was asked to leave in the middle of the block of that period."""
        leave_requested_at, run_id = stay.attempt.leave_requested_at, stay.attempt.run_id
        granted = [
            share
            for share in self.shares[run_id]
            if leave_requested_at and share.period_at <= leave_requested_at
        ]
        if leave_requested_at is None or not granted:
            return False
        had_s = sum(each.served_s(granted[-1].period_at, leave_requested_at) for each in self.stays(run_id))
        return 0.0 < had_s < granted[-1].allotted_s - 0.01

    def _note_shares(self) -> None:
        for run_id in self.shared:
            share = self.simulation.store.run(run_id).share
            seen = self.shares[run_id]
            if share is not None and (not seen or seen[-1].period_at != share.period_at):
                seen.append(share)

    def _submit(self, mode: Mode, slots: int) -> str:
        self._submitted += 1
        wanted = spec(slots=slots, mode=mode, max_rapid_cycles=2, pause=PausePolicy(grace_s=30.0))
        submission = Submission(spec=wanted, actor=ADA, idempotency_key=f"key{self._submitted}")
        return self.simulation.server.plane.submit([submission])[0].run.id

    def _behaviour(self, launch: Launch) -> Behaviour:
        random = self._random
        return Behaviour(
            duration_s=FOREVER_S,
            start_s=random.choice((0.0, 1.0, 15.0)),
            leave_s=random.choice((0.0, 5.0, 29.0)),
            checkpoint_period_s=2.0,
            first_output_s=1.0,
        )
