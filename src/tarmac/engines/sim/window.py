"""The visible part of simulated attempts: observations, workers, notices and files. Used by both engines."""

from __future__ import annotations

from collections.abc import Sequence

from tarmac.engines.sim.clock import VirtualClock
from tarmac.engines.sim.request import SimRequest
from tarmac.engines.sim.story import Facts, Story, first_worker, milestones, releases
from tarmac.engines.sim.world import World
from tarmac.model.ports import Notice, Observation, ObservedState, WorkerStatus
from tarmac.model.run import Outcome
from tarmac.node.attempt.document import NodeLaunch, WorkerLaunch
from tarmac.node.attempt.protocol import NODES, REPORTS_FILE


class Window:
    """The visible part of a world: all events whose news has arrived."""

    def __init__(self, world: World, clock: VirtualClock) -> None:
        self._world = world
        self._clock = clock

    def observation(self, attempt_id: str) -> Observation:
        """The current observation of an attempt."""
        facts = self._world.facts(attempt_id)
        if facts is None:
            return Observation(state=ObservedState.ABSENT)
        if self._unknown(facts):
            return Observation(state=ObservedState.UNKNOWN, native_state="no answer")
        story, horizon = self._seen(attempt_id), self._clock.now() - self._world.delay_s
        if story.ended_at is not None:
            state = ObservedState.ENDED
        elif story.started_at is not None:
            state = ObservedState.RUNNING
        else:
            state = ObservedState.STARTING
        return Observation(
            state=state,
            outcome=story.outcome,
            cause=story.cause,
            claimed_at=story.claimed_at,
            started_at=story.started_at,
            ended_at=story.ended_at,
            milestones=milestones(facts, story, horizon),
            native_state=state.value,
            released=releases(facts, story, horizon),
        )

    def workers(self, attempt_id: str) -> Sequence[WorkerStatus]:
        """The workers of an attempt."""
        facts = self._world.facts(attempt_id)
        if facts is None or facts.launch is None:
            return ()
        story = self._seen(attempt_id)
        return [_worker_status(node, worker, story) for node in facts.launch.nodes for worker in node.workers]

    def notices(self, attempt_id: str) -> Sequence[Notice]:
        """The notices of an attempt's nodes to its user."""
        facts = self._world.facts(attempt_id)
        claimed_at = self._seen(attempt_id).claimed_at if facts is not None else None
        if facts is None or facts.launch is None or claimed_at is None:
            return ()
        node = facts.launch.nodes[0].node
        return [Notice(at=claimed_at, node=node, text=text) for text in facts.behaviour.notices]

    def files(self, attempt_id: str) -> dict[str, bytes]:
        """The files of an attempt: its request, and the logs of workers that have started."""
        facts = self._world.facts(attempt_id)
        if facts is None or facts.launch is None:
            return {}
        files = {"attempt.json": str(SimRequest(launch=facts.launch)).encode()}
        if self._seen(attempt_id).started_at is not None:
            files |= {
                f"logs/{worker.name}.log": b"" for node in facts.launch.nodes for worker in node.workers
            }
            node, worker = first_worker(facts.launch)
            files[f"logs/{worker.name}.log"] = facts.behaviour.output
            if facts.behaviour.reports:
                files[f"{NODES}/{node}/{REPORTS_FILE}"] = facts.behaviour.reports
        return files

    def _unknown(self, facts: Facts) -> bool:
        since_s = self._clock.now() - facts.submitted_at - facts.behaviour.unknown_from_s
        return 0 <= since_s < facts.behaviour.unknown_for_s

    def _seen(self, attempt_id: str) -> Story:
        """The part of the story whose news has arrived."""
        story, horizon = self._world.story(attempt_id), self._clock.now() - self._world.delay_s
        if story.ended_at is not None and story.ended_at <= horizon:
            return story

        def shown(at: float | None) -> float | None:
            return at if at is not None and at <= horizon else None

        return Story(claimed_at=shown(story.claimed_at), started_at=shown(story.started_at))


def _worker_status(node: NodeLaunch, worker: WorkerLaunch, story: Story) -> WorkerStatus:
    """A worker in the story: the failing one with its exit, the others ended because of it."""
    ended = story.started_at is not None and story.ended_at is not None
    cause = story.cause
    blamed = cause is not None and (cause.role, cause.replica, cause.worker) == (
        worker.role,
        worker.replica,
        worker.worker,
    )
    exit_code, signal = None, None
    if ended and blamed and cause is not None:
        exit_code, signal = cause.exit_code, cause.signal
    elif ended and story.outcome is Outcome.COMPLETED:
        exit_code = 0
    elif ended:
        signal = "SIGTERM"
    return WorkerStatus(
        role=worker.role,
        replica=worker.replica,
        index=worker.worker,
        node=node.node,
        log=f"logs/{worker.name}.log",
        started_at=story.started_at,
        ended_at=story.ended_at if ended else None,
        exit_code=exit_code,
        signal=signal,
    )
