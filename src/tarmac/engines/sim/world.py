"""The actual events of a simulation: the existing attempts, and violated rules.

Engines show the part of the world whose news has arrived. A story is recomputed only after an action on its
attempt, and the clock calls back at its turning points.
"""

from collections import Counter
from collections.abc import Callable, Iterator

from tarmac.engines.attempts.writing import replaces
from tarmac.engines.sim.clock import Appointment, VirtualClock
from tarmac.engines.sim.story import Behaviour, Facts, releases, saved_s, tell
from tarmac.model.lifecycle import LeaveRequest
from tarmac.model.ports import Observation
from tarmac.model.run import split_attempt_id
from tarmac.node.attempt.document import Launch

Slots = dict[tuple[str, int], tuple[str, int]]
"""The nodes and slots of an attempt, with the role and replica of each."""


class World:
    """The attempts of a simulation. `news` is called `delay_s` after every turning point of an attempt."""

    def __init__(self, clock: VirtualClock, news: Callable[[str], None]) -> None:
        self.delay_s = 0.0
        self.starts: Counter[str] = Counter()
        self.violations: list[str] = []
        self._clock = clock
        self._news = news
        self._facts: dict[str, Facts] = {}
        self._stories: dict[str, Observation] = {}
        self._by_run: dict[str, list[str]] = {}
        self._saved_s: dict[str, float] = {}
        self._unsettled: dict[str, list[str]] = {}
        self._appointments: dict[str, list[Appointment]] = {}
        self._open: set[str] = set()
        self._holders: dict[tuple[str, int], tuple[str, tuple[str, int]]] = {}

    def facts(self, attempt_id: str) -> Facts | None:
        """The actions on an attempt; None if there were none."""
        return self._facts.get(attempt_id)

    def story(self, attempt_id: str) -> Observation:
        """The story of a known attempt, including its future."""
        return self._stories[attempt_id]

    def begin(self, launch: Launch, behaviour: Behaviour) -> None:
        """Begin a new attempt, and note the attempts that it disturbs."""
        slots = {
            (node.node, slot): (worker.role, worker.replica)
            for node in launch.nodes
            for worker in node.workers
            for slot in worker.slots
        }
        self.violations.extend(self._overlaps(launch, slots))
        self.starts[launch.attempt_id] += 1
        self._open.add(launch.attempt_id)
        self._holders.update({place: (launch.attempt_id, placement) for place, placement in slots.items()})
        facts = Facts(
            launch=launch,
            behaviour=behaviour,
            submitted_at=self._clock.now(),
            progress_s=self.progress_s(launch.run_id),
        )
        self._add(launch.attempt_id, facts)

    def request_leave(self, attempt_id: str, request: LeaveRequest) -> None:
        """Ask an attempt to leave. A stop prevents one that has not begun from beginning."""
        facts = self._facts.get(attempt_id)
        if facts is None and request.ends:
            facts = self._fence(attempt_id)
        if facts is not None and replaces(request, facts.requests[-1][1] if facts.requests else None):
            facts.requests.append((self._clock.now(), request))
            self._retell(attempt_id)

    def reap(self, attempt_id: str) -> None:
        """End an attempt, or prevent it from beginning."""
        facts = self._facts.get(attempt_id) or self._fence(attempt_id)
        if facts.reaped_at is None:
            facts.reaped_at = self._clock.now()
            self._retell(attempt_id)

    def live(self) -> frozenset[str]:
        """The attempts that exist now."""
        self._open = set(filter(self._lives, tuple(self._open)))
        return frozenset(self._open)

    def progress_s(self, run_id: str) -> float:
        """The amount of a run's work in its checkpoints; the part of ended attempts is computed once."""
        best_s = self._saved_s.get(run_id, 0.0)
        unsettled = []
        for attempt_id in self._unsettled.get(run_id, ()):
            done_s = saved_s(self._facts[attempt_id], self._stories[attempt_id])
            best_s = max(best_s, done_s)
            if self._lives(attempt_id):
                unsettled.append(attempt_id)
            else:
                self._saved_s[run_id] = max(self._saved_s.get(run_id, 0.0), done_s)
        self._unsettled[run_id] = unsettled
        return best_s

    def forget(self, run_id: str) -> None:
        """Drop all data of a run whose attempts have ended."""
        for attempt_id in self._by_run.pop(run_id, ()):
            for table in (self._facts, self._stories, self._appointments, self.starts):
                table.pop(attempt_id, None)
            self._open.discard(attempt_id)
        self._unsettled.pop(run_id, None)
        self._saved_s.pop(run_id, None)

    def _lives(self, attempt_id: str) -> bool:
        story = self._stories.get(attempt_id)
        return story is not None and (story.ended_at is None or story.ended_at > self._clock.now())

    def _released(self, attempt_id: str) -> set[tuple[str, int]]:
        """The replicas of an attempt that have ended by now."""
        ended = releases(self._facts[attempt_id], self._stories[attempt_id], self._clock.now())
        return {(each.role, each.replica) for each in ended}

    def _overlaps(self, launch: Launch, slots: Slots) -> Iterator[str]:
        for other in self._by_run.get(launch.run_id, ()):
            if other in self._open and self._lives(other):
                yield f"{launch.attempt_id} began while {other} lived"
        for node, slot in slots:
            holder, placement = self._holders.get((node, slot), (None, ("", 0)))
            if holder is not None and self._lives(holder) and placement not in self._released(holder):
                yield f"{launch.attempt_id} took slot {slot} of {node}, which {holder} held"

    def _fence(self, attempt_id: str) -> Facts:
        facts = Facts(launch=None, behaviour=Behaviour(), submitted_at=self._clock.now())
        self._add(attempt_id, facts)
        return facts

    def _add(self, attempt_id: str, facts: Facts) -> None:
        self._facts[attempt_id] = facts
        run_id = split_attempt_id(attempt_id)[0]
        self._by_run.setdefault(run_id, []).append(attempt_id)
        self._unsettled.setdefault(run_id, []).append(attempt_id)
        self._retell(attempt_id)

    def _retell(self, attempt_id: str) -> None:
        """Compute the story again, with appointments at its turning points."""
        facts = self._facts[attempt_id]
        story = self._stories[attempt_id] = tell(facts)
        for appointment in self._appointments.pop(attempt_id, ()):
            appointment.callback = None  # cancelled
        moments = [story.started_at, story.ended_at]
        if story.started_at is not None:
            moments += [story.started_at + each_s for each_s in facts.behaviour.replicas_end_s.values()]
        turns = [at + self.delay_s for at in moments if at is not None]
        self._appointments[attempt_id] = [
            self._clock.call_at(at, lambda: self._news(attempt_id)) for at in turns if at >= self._clock.now()
        ]
