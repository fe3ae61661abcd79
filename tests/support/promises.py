"""What must hold of a simulated tarmac at every moment, whatever crashed: used by `seeded.History`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from math import isclose

from actors import ADA
from replaying import replay
from simulated import Simulation
from tarmac.control.state.control_state import FEED_PERIOD_S
from tarmac.control.state.scheduler_state import HALF_LIVES
from tarmac.model.array import Condition
from tarmac.model.changes import UsageBucket
from tarmac.model.codec import replace
from tarmac.model.lifecycle import AttemptState, Mode, RunState
from tarmac.model.progress import CauseCode, Outcome, Share
from tarmac.model.run import Attempt, Run
from tarmac.sched import Candidate, Holding, Snapshot


class Promises:
    """Checks; it remembers what was seen before, because some things never change again."""

    def __init__(self, simulation: Simulation) -> None:
        self._simulation = simulation
        self.ended: dict[str, Run] = {}
        self._shares: dict[tuple[str, float], Share] = {}
        self._seen: dict[str, Run] = {}

    def check(self, run_ids: Iterable[str]) -> None:
        """What holds at every moment."""
        store = self._simulation.store
        for engine in self._simulation.engines:
            assert not engine.violations, engine.violations
            assert all(count == 1 for count in engine.starts.values()), engine.starts
        live = store.live_attempts()
        self._check_arrays(live)
        assert len({attempt.run_id for attempt in live}) == len(live), "a run has two live attempts"
        held = [
            (placement.node, slot)
            for attempt in live
            if not attempt.delegated
            for placement in attempt.current_allocation.placements
            for slot in placement.slots
        ]
        assert len(set(held)) == len(held), "a slot is in two gangs"
        used: Counter[tuple[str, str]] = Counter()
        for run_id in run_ids:
            run = store.run(run_id)
            assert run is not None, f"{run_id} was accepted and is lost"
            if self._seen.get(run_id) is not run:  # with a run that nothing has happened to, all is as it was
                self._check_run(run)
                self._seen[run_id] = run
            used[run.user, run.project] += run.attained_slot_s / run.spec.weight
        self._check_usage(used)

    def check_scheduler(self, *, rivals: bool) -> None:
        """The facts that a server kept up to date are those that one finds that starts now.

        With `rivals`, less what is recorded without an event: it learns of that once it acts on the run.
        """
        self._simulation.clock.advance(FEED_PERIOD_S)  # what other servers did has been read by then
        kept = self._simulation.server.plane.control.scheduler_state.snapshot()
        made = self._simulation.another().plane.control.scheduler_state.snapshot()
        assert (kept.pools, kept.nodes) == (made.pools, made.nodes)
        assert _queue(kept, silent=not rivals) == _queue(made, silent=not rivals)
        assert _holdings(kept, silent=not rivals) == _holdings(made, silent=not rivals)
        half_life_s = max(pool.half_life_s for pool in made.pools)
        since = self._simulation.clock.now() - HALF_LIVES * half_life_s  # what is older counts no more
        used, stored = _totals(kept.usage, since), _totals(made.usage, since)
        assert used.keys() == stored.keys()
        assert all(isclose(used[key], stored[key], abs_tol=1e-3) for key in stored), "usage was missed"

    def check_end(self, run_ids: Iterable[str]) -> None:
        """What holds once everything has come to its end; every run is looked at anew."""
        self._seen.clear()
        self.check(run_ids)
        store, engines = self._simulation.store, self._simulation.engines
        waiting = [(run.id, run.state) for run in store.live_runs()]
        assert not waiting, f"these never ended: {waiting}"
        assert not any(engine.live() for engine in engines), "something still runs"
        assert all(report.slots_used == 0 for report in self._simulation.server.plane.nodes(ADA))
        for run_id in run_ids:
            for attempt in store.attempts(run_id):
                assert attempt.started_at is None or attempt.ended_at >= attempt.started_at, (
                    "usage runs backwards"
                )
                assert attempt.started_at is None or sum(e.starts[attempt.id] for e in engines) == 1

    def _check_run(self, run: Run) -> None:
        store = self._simulation.store
        before = self.ended.get(run.id)
        assert before is None or before == run, f"{run.id} changed after its end"
        if run.state is RunState.ENDED:
            self.ended[run.id] = run
        events = store.events(run.id)
        assert replay(event.event for event in events) is run.state
        assert [event.seq for event in events] == list(range(1, run.seq + 1))
        assert [event.at for event in events] == sorted(event.at for event in events), events
        attempts = store.attempts(run.id)
        assert [attempt.number for attempt in attempts] == list(range(1, run.attempt + 1))
        for attempt in attempts:
            assert attempt.allocation.slots == run.spec.slots, "a gang has all or nothing"
            assert (attempt.state is AttemptState.ENDED) == (attempt.ended_at is not None)
        self._check_dependencies(run)
        self._check_delegated(attempts)
        self._check_counts(run, attempts)
        self._check_share(run)
        self._check_cycle_report(run)

    def _check_arrays(self, live: list[Attempt]) -> None:
        """No more members of an array hold slots than may at once."""
        runs = [run for attempt in live if (run := self._simulation.store.run(attempt.run_id)) is not None]
        for array_id, count in Counter(run.array_id for run in runs if run.array_id).items():
            array = next(run.spec.array for run in runs if run.array_id == array_id)
            assert array is not None
            assert array.at_most is None or count <= array.at_most, f"{count} of array {array_id} run at once"

    def _check_dependencies(self, run: Run) -> None:
        """No attempt before what it waits for has ended as it should; what is met stays met."""
        for each in run.dependencies:
            other = self._simulation.store.run(each.run_id)
            good = other is not None and (
                other.outcome is Outcome.COMPLETED
                or (each.condition is Condition.ENDED and other.outcome is not None)
            )
            assert good or (not run.attempt and not each.met), f"{run.id} did not wait for {each.run_id}"
        if run.cause is not None and run.cause.code is CauseCode.DEPENDENCY_FAILED:
            assert run.outcome is Outcome.FAILED
            assert not run.attempt

    def _check_delegated(self, attempts: list[Attempt]) -> None:
        """What waits in a cluster's own queue is lost only if that cluster truly forgot it."""
        forgotten = {each for engine in self._simulation.batches.values() for each in engine.forgotten}
        for attempt in attempts:
            assert (attempt.state is AttemptState.SUBMITTED) <= attempt.delegated
            if attempt.delegated and attempt.outcome is Outcome.LOST and attempt.granted_at is None:
                assert attempt.id in forgotten, f"{attempt.id} waited, and was taken for lost"

    def _check_counts(self, run: Run, attempts: list[Attempt]) -> None:
        """Failures, faults, preemptions and turns are counted apart, and what was used adds up."""
        outcomes = Counter(attempt.outcome for attempt in attempts)
        assert run.failures == outcomes[Outcome.FAILED]
        assert run.faults == outcomes[Outcome.LOST]
        by_itself = outcomes[Outcome.FAILED] + outcomes[Outcome.COMPLETED]
        if run.spec.mode is Mode.CYCLE:
            assert run.turns <= run.spec.max_rapid_cycles, "more turns than it was to have"
            assert run.preemptions + run.turns == outcomes[Outcome.PREEMPTED] + by_itself
        else:
            assert (run.turns, run.preemptions) == (0, outcomes[Outcome.PREEMPTED])
        held_slot_s = sum(_used_slot_s(attempt) for attempt in attempts)
        assert isclose(run.attained_slot_s, held_slot_s, abs_tol=1e-6), "what it used does not add up"

    def _check_usage(self, used: Counter[tuple[str, str]]) -> None:
        """Every slot-second is in the usage once, whoever recorded it."""
        stored: Counter[tuple[str, str]] = Counter()
        for bucket in self._simulation.store.usage(0.0):
            stored[bucket.user, bucket.project] += bucket.slot_s
        for key in used.keys() | stored.keys():
            assert isclose(used[key], stored[key], abs_tol=1e-3), f"the usage of {key} is counted wrongly"

    def _check_share(self, run: Run) -> None:
        """A share is promised once in a period, and what is used of it only grows."""
        share = run.share
        if share is None:
            return
        assert run.spec.mode is Mode.INTERRUPTIBLE
        before = self._shares.get((run.id, share.period_at))
        if before is not None:
            promised = (before.allotted_s, before.rank, before.credit_s)
            assert (share.allotted_s, share.rank, share.credit_s) == promised, "a share was granted twice"
            assert share.used_s >= before.used_s
        self._shares[run.id, share.period_at] = share

    def _check_cycle_report(self, run: Run) -> None:
        """A cycle run that completed says what it has shown."""
        if run.outcome is not Outcome.COMPLETED:
            return
        assert (run.cycle_report is not None) == (run.spec.mode is Mode.CYCLE)
        if run.cycle_report is not None:
            assert run.cycle_report.turns == run.turns
            unproven = run.cause is not None and run.cause.code is CauseCode.UNPROVEN
            assert unproven is not run.cycle_report.proven


def _used_slot_s(attempt: Attempt) -> float:
    """What the placements that an attempt holds no more were held for."""
    until = {(each.role, each.replica): each.at for each in attempt.released}
    ends = (
        (len(placement.slots), until.get((placement.role, placement.replica), attempt.ended_at))
        for placement in attempt.allocation.placements
    )
    begin = attempt.allocated_at
    return sum(slots * (at - begin) for slots, at in ends if at is not None and begin is not None)


def _queue(facts: Snapshot, *, silent: bool) -> dict[str, Candidate]:
    """The queued runs by id, with what was recorded without an event if `silent`."""
    return {item.run_id: item if silent else replace(item, share=None) for item in facts.queue}


def _holdings(facts: Snapshot, *, silent: bool) -> dict[str, Holding]:
    """The holdings by run, likewise."""
    return {
        item.candidate.run_id: item
        if silent
        else replace(item, checkpoint_at=None, candidate=replace(item.candidate, share=None))
        for item in facts.holdings
    }


def _totals(usage: Iterable[UsageBucket], since: float) -> Counter[tuple[str, str, str, str, float]]:
    total: Counter[tuple[str, str, str, str, float]] = Counter()
    for item in (each for each in usage if each.hour_at >= since):
        total[item.cluster, item.pool, item.user, item.project, item.hour_at] += item.slot_s
    return total
