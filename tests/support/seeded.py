"""`History`: one seeded life of a simulated tarmac, for tests/simulation.

Users submit runs of every mode, change their minds and the queue; nodes fail; and the control plane crashes
at durable writes and at effects, sometimes beside a second one on the same store. The invariants hold after
every act (`promises.Promises`); at the end everything accepted has ended.
"""

from __future__ import annotations

import contextlib
from collections import Counter
from random import Random

from actors import ADA, member
from promises import Promises
from sim_engine import Behaviour, SimEngine
from simulated import Crash, Server, Simulation, nodes, spec
from tarmac.control.draining import NodeChoice
from tarmac.control.queue.queueing import QueueChange
from tarmac.control.service import Submission
from tarmac.model.array import Condition, Dependency, RunArray
from tarmac.model.cluster import DEFAULT_POOL, LOCAL_CLUSTER, NodeState, Packing, Policy, Pool, ShareBy
from tarmac.model.errors import InvalidInput, Refused
from tarmac.model.lifecycle import IllegalStep, Mode, RunState
from tarmac.model.run import Run
from tarmac.model.spec import LocalDirectory, Queueing, RunSpec, Target
from tarmac.model.summary import RunQuery
from tarmac.node.attempt.document import Launch

OTHER_POOL = "other"

BATCH = "batch"
"""The cluster with a queue of its own."""

FAR = "far"
"""The cluster that has an engine of its own, which hangs, fails and comes back."""

MODES = (Mode.BATCH, Mode.BATCH, Mode.BATCH, Mode.CYCLE, Mode.INTERRUPTIBLE)


class History:
    """One seeded history; `run` plays it to its end.

    `far`: there is a second cluster, on another engine; `batch`: and one that has a queue of its own.
    `frail`: nodes are lost often, also several at once, and come back or do not until the end.
    """

    def __init__(
        self,
        seed: int,
        *,
        acts: int = 60,
        crash_share: float = 0.08,
        far: bool = False,
        batch: bool = False,
        frail: bool = False,
    ) -> None:
        self.random = random = Random(seed)
        self.acts = acts
        self.crash_share = crash_share
        self.crashing = True
        slots = random.choice((1, 2, 4))
        cluster = nodes(random.randint(1, 4), slots)
        self.pools = [DEFAULT_POOL]
        if random.random() < 0.4:
            cluster += nodes(random.randint(1, 2), slots, pool=OTHER_POOL, first=len(cluster) + 1)
            self.pools.append(OTHER_POOL)
        self.simulation = Simulation(
            behaviour=self._behaviour,
            cluster=cluster,
            pools=[self._rules(name) for name in self.pools],
            news_delay_s=random.choice((0.0, 0.0, 2.0)),
            others={FAR: nodes(random.randint(1, 3), slots, cluster=FAR)} if far else {},
            batches={BATCH: nodes(random.randint(1, 2), slots, cluster=BATCH)} if batch else {},
        )
        self.far = far
        self.batch = batch
        self.frail = frail
        self.node_events = Counter[str]()
        self.left_waiting = (
            0  # runs that waited for the far engine when the near cluster had done all its own
        )
        self.rival: Server | None = None
        self.with_rival = random.random() < 0.25
        for engine in self.simulation.engines:
            engine.interrupt = lambda _moment, _attempt_id: self._maybe_crash()
        self.simulation.store.interrupt = self._maybe_crash
        self.accepted: dict[str, str] = {}
        self.promises = Promises(self.simulation)

    @property
    def ended(self) -> dict[str, Run]:
        """The runs that have ended."""
        return self.promises.ended

    def run(self) -> None:
        """Play the acts, then let everything come to its end, checking all the way."""
        for number in range(self.acts):
            self._act()
            self.promises.check(self.accepted.values())
            if number % 15 == 0:
                self.promises.check_scheduler(rivals=self.with_rival)
        self._finish()
        self.promises.check_scheduler(rivals=self.with_rival)
        self.promises.check_end(self.accepted.values())

    # --- acts

    def _act(self) -> None:
        simulation, random = self.simulation, self.random
        if self.far and random.random() < 0.05:
            self._disturb_the_far_engine()
        if self.batch and random.random() < 0.15:
            self._disturb_the_batch_system()
        if self.frail and random.random() < 0.2:
            self._lose_or_return_nodes()
        choice = random.random()
        if choice < 0.22:
            self._submit()
        elif choice < 0.32 and self.accepted:
            self._command(random.choice(("stop", "pause", "resume", "resume", "pause")))
        elif choice < 0.37 and self.accepted:
            self._reorder()
        elif choice < 0.42:
            simulation.clock.advance(random.choice((0.1, 1.0, 10.0, 100.0)))
        elif choice < 0.56:
            upcoming = simulation.upcoming()
            simulation.clock.advance_to(upcoming if upcoming is not None else simulation.clock.now() + 5.0)
        elif choice < 0.58:
            simulation.survive(self._crash)
        elif choice < 0.60:
            self._disturb_a_node()
        elif choice < 0.68 and self.with_rival:
            self._turn_of_the_rival()
        else:
            loop = random.choice(simulation.loops)
            simulation.survive(lambda: simulation.server.turn(*loop))

    def _turn_of_the_rival(self) -> None:
        """A pass of another server on the same store; it crashes as well."""
        try:
            if self.rival is None:
                self.rival = self.simulation.another()
            self.rival.turn(*self.random.choice(self.simulation.loops))
        except Crash:
            self.simulation.crashes += 1
            self.rival = None

    def _submit(self) -> None:
        key = f"key{len(self.accepted)}"
        wanted, user = self._spec(), self.random.choice(("ada", "bob"))

        def submit() -> None:
            accepted = self.simulation.server.plane.submit(
                [Submission(spec=wanted, actor=member(user), idempotency_key=key)]
            )
            self.accepted[key] = accepted[0].run.id
            self._note_members(key, accepted[0].run)

        while key not in self.accepted:  # a client asks again, under the same key, until it has an answer
            try:
                self.simulation.survive(submit)
            except IllegalStep:
                raise
            except Refused:  # it would never fit: nothing was accepted
                return

    def _note_members(self, key: str, first: Run) -> None:
        """The other members of an array have been accepted as well."""
        if first.array_id is not None:
            found = self.simulation.store.runs(RunQuery(array_id=first.array_id))
            assert len(found) == 3, f"array {first.array_id} has {len(found)} members"
            others = {f"{key}[{member.array_index}]": member.id for member in found if member.id != first.id}
            self.accepted |= others

    def _command(self, verb: str) -> None:
        run_id = self._some_run()
        with contextlib.suppress(Refused):
            self.simulation.survive(lambda: getattr(self.simulation.server.plane, verb)(ADA, run_id))

    def _reorder(self) -> None:
        """A list of changes; a crash in the middle of it leaves all of them or none."""
        random, plane = self.random, self.simulation.server.plane
        if random.random() < 0.5:
            pair = {self._some_run(), self._some_run()}
            mark = random.randint(1, 10**6)
            changes = [QueueChange(reference=run_id, priority=mark) for run_id in sorted(pair)]
            with contextlib.suppress(InvalidInput):
                self.simulation.survive(lambda: plane.reorder(ADA, changes))
            found = {self.simulation.store.run(run_id).place.priority == mark for run_id in pair}
            assert len(found) == 1, "half of a list of changes was made"
            return
        what = random.choice(
            (
                {"pool": random.choice(self.pools)},
                {"ahead_of": self._some_run()},
                {"behind_of": self._some_run()},
                {"top": True},
            )
        )
        change = QueueChange(reference=self._some_run(), **what)
        with contextlib.suppress(InvalidInput):
            self.simulation.survive(lambda: plane.reorder(ADA, [change]))

    def _some_run(self) -> str:
        return self.random.choice(sorted(self.accepted.values()))

    def _disturb_the_far_engine(self) -> None:
        simulation, engine = self.simulation, self.simulation.others[FAR]
        match self.random.choice(("hangs", "fails", "answers")):
            case "hangs":
                simulation.hang(FAR)
            case "fails":
                engine.unreachable = True
            case _:
                engine.unreachable = False
                simulation.answer(FAR)

    def _disturb_the_batch_system(self) -> None:
        simulation, engine = self.simulation, self.simulation.batches[BATCH]
        match self.random.choice(
            ("hangs", "fails", "answers", "answers", "closes", "closes", "forgets", "forgets")
        ):
            case "hangs":
                simulation.hang(BATCH)
            case "fails":
                engine.unreachable = True
            case "closes":
                engine.closed = not engine.closed
            case "forgets" if engine.waiting():
                engine.forget(self.random.choice(engine.waiting()))
            case "forgets":
                simulation.clock.advance(self.random.choice((600.0, 86_400.0, 3 * 86_400.0)))
            case _:
                engine.unreachable = False
                simulation.answer(BATCH)

    def _disturb_a_node(self) -> None:
        placed = [each for each in self.simulation.engines if isinstance(each, SimEngine)]
        engine = self.random.choice(placed) if self.far else self.simulation.engine
        node = self.random.choice(engine.nodes())
        if self.random.random() < 0.5:
            drained = self.random.random() < 0.5
            self.simulation.survive(
                lambda: self.simulation.server.plane.set_drained(ADA, NodeChoice(names=(node.name,)), drained)
            )
        else:
            state = NodeState.LOST if node.state is NodeState.UP else NodeState.UP
            engine.set_node(node.name, state)

    def _lose_or_return_nodes(self) -> None:
        """Nodes are lost at once, with what runs on them, or some that were lost come back."""
        random, seen = self.random, self.node_events
        placed = [each for each in self.simulation.engines if isinstance(each, SimEngine)]
        found = [(engine, node) for engine in placed for node in engine.nodes()]
        up = [each for each in found if each[1].state is NodeState.UP]
        away = [each for each in found if each[1].state is not NodeState.UP]
        lost = bool(up) and (not away or random.random() < 0.6)
        chosen = up if lost else away
        several = random.sample(chosen, random.randint(1, len(chosen)))
        for engine, node in several:
            engine.set_node(node.name, NodeState.LOST if lost else NodeState.UP)
        seen["nodes lost" if lost else "nodes back"] += len(several)
        seen["losses of several nodes at once"] += lost and len(several) > 1

    def _crash(self) -> None:
        raise Crash

    def _maybe_crash(self) -> None:
        if self.crashing and self.random.random() < self.crash_share:
            raise Crash

    # --- what there is

    def _rules(self, name: str) -> Pool:
        random = self.random
        return Pool(
            cluster=LOCAL_CLUSTER,
            name=name,
            policy=random.choice(list(Policy)),
            preemption=random.random() < 0.5,
            packing=random.choice(list(Packing)),
            share_by=random.choice(list(ShareBy)),
            guaranteed_s=random.choice((20.0, 60.0)),
            half_life_s=random.choice((600.0, 86_400.0)),
            turn_s=20.0,
            period_s=120.0,
            floor_s=20.0,
        )

    def _spec(self) -> RunSpec:
        random = self.random
        wanted: dict[str, object] = {
            "mode": Mode.BATCH if self.batch and random.random() < 0.5 else random.choice(MODES),
            "max_rapid_cycles": random.randint(1, 3),
            "weight": random.choice((1.0, 1.0, 2.5)),
            "project": random.choice(("vision", "speech")),
            "target": self._target(),
            "retries": random.choice((0, 0, 1, 2)),
            "priority": random.choice((0, 0, 5)),
            "time_limit_s": random.choice((None, None, 50.0)),
            "queueing": random.choice((Queueing.WAIT, Queueing.WAIT, Queueing.WAIT, Queueing.FAIL_IF_BUSY)),
            "code": random.choice((None, LocalDirectory(path="/code"))),
        }
        if self.accepted and not self.far and random.random() < 0.12:  # the far cluster may hang for ever
            others = {self._some_run() for _ in range(random.choice((1, 1, 2)))}
            wanted["after"] = tuple(
                Dependency(run=run_id, condition=random.choice(list(Condition))) for run_id in sorted(others)
            )
        if random.random() < 0.05:
            wanted["array"] = RunArray(indices="1,3,5", at_most=random.choice((None, 1, 2)))
        shape = random.random()
        if shape < 0.5:
            wanted["slots"] = random.choice((1, 1, 2, 4, 8))
        elif shape < 0.8:
            wanted |= {"replicas": random.choice((1, 2, 3)), "each": random.choice((1, 2))}
        return spec(**wanted)

    def _target(self) -> Target:
        pool = self.random.choice((None, None, *self.pools))
        if self.batch and self.random.random() < 0.5:
            return Target(cluster=BATCH)
        if not self.far:
            return Target(pool=pool)
        cluster = self.random.choice((None, LOCAL_CLUSTER, LOCAL_CLUSTER, FAR))
        return Target(cluster=cluster, pool=pool if cluster == LOCAL_CLUSTER else None)

    def _behaviour(self, launch: Launch) -> Behaviour:
        random = self.random
        return Behaviour(
            duration_s=random.choice((0.0, 1.0, 20.0, 200.0)),
            start_s=random.choice((0.0, 0.5, 5.0)),
            checkpoint_period_s=10.0,
            first_output_s=random.choice((0.0, 3.0, 30.0)),
            exit_code=random.choice((0, 0, 0, 1)),
            leave_s=random.choice((0.0, 3.0)),
            ignores_requests=random.random() < 0.1,
            hangs_at_start=random.random() < 0.03,
            vanishes_after_s=random.choice((None,) * 12 + (5.0,)),
            unknown_for_s=random.choice((0.0, 0.0, 0.0, 30.0)),
            replicas_end_s=self._early_ends(),
        )

    def _early_ends(self) -> dict[tuple[str, int], float]:
        """When replicas end that others outlive; some behaviours end before, and some runs have fewer."""
        random = self.random
        return {
            ("main", replica): random.choice((0.0, 1.0, 10.0, 50.0))
            for replica in range(3)
            if random.random() < 0.3
        }

    def _finish_near(self) -> None:
        """While the far engine hangs, every run of the near cluster comes to its end."""
        simulation = self.simulation
        simulation.hang(FAR)
        store, server = simulation.store, simulation.server

        def near() -> list[Run]:
            return [run for run in store.live_runs() if run.spec.target.cluster == LOCAL_CLUSTER]

        def done() -> bool:
            for run in near():
                if run.state is RunState.PAUSED:
                    server.plane.resume(ADA, run.id)
            return not near()

        simulation.settle_until(done)
        self.left_waiting = len(list(store.live_runs()))
        simulation.others[FAR].unreachable = False
        simulation.answer(FAR)

    def _finish(self) -> None:
        """No more faults: drained and lost nodes come back, paused runs are resumed, and time passes."""
        self.crashing = False
        simulation = self.simulation
        simulation.start()
        for engine in simulation.engines:
            for node in engine.nodes() if isinstance(engine, SimEngine) else ():
                engine.set_node(node.name, NodeState.UP)
                simulation.server.plane.set_drained(ADA, NodeChoice(names=(node.name,)), False)
        if self.far:
            self._finish_near()
        for engine in simulation.batches.values():
            simulation.answer(BATCH)
            engine.unreachable = engine.closed = False
        for _ in range(20):
            simulation.settle(limit=10_000)
            waiting = [run for run in simulation.store.live_runs() if run.state is RunState.PAUSED]
            if not waiting:
                return
            for run in waiting:
                simulation.server.plane.resume(ADA, run.id)
