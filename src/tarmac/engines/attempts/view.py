"""An attempt as read from its directory: each poll reads on from the last position.

Called by engines, through `Views`, which keeps one view for each recently used attempt. `aggregate_outcome`
interprets the facts; each engine acts on them.
"""

import os
import time
from collections import OrderedDict, deque
from collections.abc import Callable, Mapping
from pathlib import Path
from threading import Lock, RLock
from typing import Any

from tarmac.engines.attempts import reported
from tarmac.engines.attempts.aggregate_outcome import OVER, NodeFacts, PartState, lost, observation
from tarmac.engines.attempts.layout import Layout
from tarmac.model import codec
from tarmac.model.codec import replace
from tarmac.model.errors import InvalidInput
from tarmac.model.lifecycle import LeaveRequest
from tarmac.model.ports import Observation
from tarmac.model.progress import Cause, CauseCode, Notice, Outcome, SavedWork, WorkerStatus
from tarmac.model.resources import NodeUtilization
from tarmac.model.run import Release
from tarmac.node.attempt import claims, document, protocol
from tarmac.node.attempt.claims import Claim
from tarmac.node.attempt.document import Launch, NodeLaunch
from tarmac.node.attempt.protocol import AttemptPaths, NodePaths
from tarmac.node.files import untrusted

REMEMBERED_VIEWS = 8192

_MILESTONES = {"first_output": "first_output_at", "checkpoint": "checkpoint_at", "checkpoint_read": "read_at"}
"""The runner's events that are milestones, and the attribute of each."""

LONGEST_NOTICE = 4000
KEPT_NOTICES = 100
"""Maximum number of notices kept per node: one with an unreachable store repeats them for days."""


class NodeView:
    """One node's part of an attempt. Guarded by the lock of its attempt.

    `node` is its name in the directory, `name` its name for people; the runner of a `late` node reports the
    name.
    """

    def __init__(self, paths: NodePaths, part: NodeLaunch) -> None:
        node = part.node
        self._late = part.address == protocol.late_address(part.rank)
        self.node = node
        self.name = node
        self.paths = paths
        self.starts = 0
        """How often the engine started its runner; `requested_at`: when it did last."""
        self.requested_at: float | None = None
        self.alive_at: float | None = None
        """When the engine last found the runner alive."""
        self.awaited = False
        """Whether the engine has waited for the exit of a runner that reported its end."""
        self._heartbeat: float | None = None
        self._heartbeat_seen_at: float | None = None
        self.facts = NodeFacts(node=node, state=PartState.UNCLAIMED)
        self.claim: Claim | None = None
        self.workers: dict[tuple[str, int, int], WorkerStatus] = {}
        self.notices: deque[Notice] = deque(maxlen=KEPT_NOTICES)
        self._lines = untrusted.Lines(paths.events)
        self._begun = 0
        self._ending: tuple[float, Mapping[str, Any]] | None = None
        self._complaints: set[str] = set()
        for worker in part.workers:
            self.workers[worker.role, worker.replica, worker.worker] = WorkerStatus(
                role=worker.role,
                replica=worker.replica,
                index=worker.worker,
                node=node,
                log=f"{protocol.LOGS}/{worker.name}.log",
                rank=worker.rank,
            )

    @property
    def is_named(self) -> bool:
        """Whether its name is known."""
        return not self._late or self.facts.name is not None

    @property
    def over(self) -> bool:
        """Whether this node's part has ended."""
        return self.facts.state in OVER

    @property
    def done(self) -> bool:
        """Whether the runner has reported its end, which is accepted once the runner is gone."""
        return self._ending is not None

    @property
    def lost(self) -> bool:
        """Whether the runner ended without a last event."""
        return self.facts.ended is not None and self.facts.ended["outcome"] == Outcome.LOST

    def refresh(self) -> None:
        """Read the runner's new reports."""
        if self.over:
            return
        if self.claim is None:
            self._read_claim()
        if self.facts.state not in (PartState.UNCLAIMED, PartState.FENCED):
            self._read_events(self._lines.added)

    def heartbeat(self) -> float | None:
        """The time of the runner's last sign of life; None before the first."""
        try:
            return os.lstat(self.paths.heartbeat).st_mtime  # called for every live node, at every poll
        except OSError:
            return None

    def still_s(self) -> float:
        """How long the runner's heartbeat has not changed, while this process watched it.

        Measured with our own clock, which stops with the machine: waking from sleep is no loss.
        """
        heartbeat, now = self.heartbeat(), time.monotonic()
        if self._heartbeat_seen_at is None or heartbeat != self._heartbeat:
            self._heartbeat, self._heartbeat_seen_at = heartbeat, now
        return now - self._heartbeat_seen_at

    def utilization(self) -> NodeUtilization | None:
        """The last measured utilization of its workers; None before the first measurement."""
        try:
            return reported.utilization(self.name, untrusted.read_object(self.paths.utilization))
        except (OSError, ValueError, TypeError, KeyError, OverflowError):
            return None

    def lose(self, cause: Cause) -> None:
        """Mark the node's part as lost since the last sign of life."""
        signs = (self.heartbeat(), self.alive_at, self.facts.started_at)
        ended_at = max((at for at in signs if at is not None), default=time.time())
        self.facts = replace(self.facts, state=PartState.ENDED, ended_at=ended_at, ended=lost(cause))

    def fail(self, cause: Cause) -> None:
        """Mark the node's part as failed before it could start."""
        ended = {"outcome": Outcome.FAILED, "cause": codec.encode(cause)}
        self.facts = replace(self.facts, state=PartState.ENDED, ended_at=time.time(), ended=ended)

    def _read_claim(self) -> None:
        try:
            self.claim = claims.read(self.paths)
        except (OSError, ValueError, KeyError) as error:
            message = f"the claim of node {self.node} cannot be read: {error}"
            self.lose(Cause(code=CauseCode.PLATFORM_FAULT, message=message, node=self.node))
            return
        if self.claim is not None:
            state = PartState.FENCED if self.claim.fenced else PartState.CLAIMED
            self.facts = replace(self.facts, state=state, ended_at=time.time() if self.claim.fenced else None)

    def take_last_word(self) -> None:
        """Read the last events of a runner that is gone, and accept the end among them."""
        if self.over:
            return
        self._read_events(self._lines.all_added)
        if self._ending is not None:
            ended_at, ended = self._ending
            self.facts = replace(self.facts, state=PartState.ENDED, ended_at=ended_at, ended=ended)

    def _read_events(self, added: Callable[[], list[bytes]]) -> None:
        """Apply the lines added since the last poll; an unfinished line waits for the next."""
        try:
            lines = added()
        except FileNotFoundError:
            return  # not created yet
        except OSError as problem:
            self._complain(f"events.jsonl cannot be read: {problem.strerror}")
            return
        if self._lines.begun != self._begun:
            self._begin_anew(self._lines.begun)
        if self._lines.overlong:
            self._complain("events.jsonl holds more than a runner writes: not all of it is read")
        for line in lines:
            try:
                self._apply(untrusted.parse_object(line))
            except (ValueError, KeyError, TypeError, OverflowError, InvalidInput):
                continue  # damaged by a power loss: the others still count

    def _begin_anew(self, begun: int) -> None:
        """Discard earlier events, because the file was replaced or truncated."""
        if self._begun:
            self.facts = NodeFacts(node=self.node, state=PartState.CLAIMED)
            self.workers = {key: _unstarted(worker) for key, worker in self.workers.items()}
            self.notices.clear()
            self._ending = None
        self._begun = begun

    def _complain(self, text: str) -> None:
        if text not in self._complaints:
            self._complaints.add(text)
            self.notices.append(Notice(at=time.time(), node=self.name, text=text))

    def _apply(self, event: Mapping[str, Any]) -> None:
        kind, at = event["kind"], reported.time(event["at"])
        if kind == "claimed":
            self.facts = replace(self.facts, claimed_at=at)
            self._take_name(event.get("name"))
        elif kind == "running":
            self.facts = replace(self.facts, state=PartState.RUNNING, started_at=at)
        elif kind == "worker_started":
            self._change_worker(event, pid=reported.whole(event["pid"]), started_at=at)
        elif kind == "worker_ended":
            exit_code, name = reported.whole(event.get("exit_code")), event.get("signal")
            self._change_worker(event, ended_at=at, exit_code=exit_code, signal=name and str(name)[:32])
            self._change_milestones(over_at=at)
        elif kind == "notice":
            self.notices.append(Notice(at=at, node=self.name, text=str(event["text"])[:LONGEST_NOTICE]))
        elif kind in ("artifact_kept", "artifact_restored"):
            saved = SavedWork(reported.time(event["saved_at"]), reported.step(event.get("step")))
            self._change_milestones(**{kind.removeprefix("artifact_"): saved})
        elif kind in ("image", "image_pull"):
            self._change_milestones(image=reported.image(event))
        elif kind in _MILESTONES:
            step = {"checkpoint_step": reported.step(event.get("step"))} if kind == "checkpoint" else {}
            self._change_milestones(**{_MILESTONES[kind]: at}, **step)
        elif kind == "ended":
            if event.get("cause"):
                codec.decode(Cause, event["cause"])  # refused here, where losing one line does no harm
            matches = reported.log_matches(event)
            self._ending = (at, {**event, "outcome": Outcome(event["outcome"]), "log_matches": matches})

    def _take_name(self, name: Any) -> None:
        """Set the name that a node known by its rank reports."""
        if isinstance(name, str) and document.NODE_NAME.fullmatch(name):
            self.name = name
            self.facts = replace(self.facts, name=name)
            self.workers = {key: replace(worker, node=name) for key, worker in self.workers.items()}

    def _change_milestones(self, **changes: Any) -> None:
        self.facts = replace(self.facts, milestones=replace(self.facts.milestones, **changes))

    def _change_worker(self, event: Mapping[str, Any], **changes: Any) -> None:
        key = (event["role"], event["replica"], event["index"])
        if key in self.workers:
            self.workers[key] = replace(self.workers[key], **changes)


def _unstarted(worker: WorkerStatus) -> WorkerStatus:
    return replace(worker, pid=None, started_at=None, ended_at=None, exit_code=None, signal=None)


class AttemptView:
    """One attempt. Readers and writers hold `lock`.

    `damage` explains why attempt.json is unusable; `final` is the observation after the end. `sidecar` is the
    command of the process beside each runner, if any; `released` are the replicas known to have ended.
    """

    def __init__(self, directory: Path, launch: Launch, *, damage: str | None = None) -> None:
        self.attempt_id = launch.attempt_id
        self.directory = directory
        self.paths = AttemptPaths(str(directory))
        self.token = launch.token
        self.secrets = launch.secrets
        self.runs_as = launch.runs_as
        self.nodes = tuple(NodeView(self.paths.node(part.node), part) for part in launch.nodes)
        self.damage = damage
        self.reaped = False
        self.sidecar = launch.sync.command if launch.sync is not None else ()
        self.released: dict[tuple[str, int], Release] = {}
        self.final: Observation | None = None
        self.lock = RLock()

    def refresh(self) -> None:
        """Read new reports of every node."""
        for node in self.nodes:
            node.refresh()

    @property
    def over(self) -> bool:
        """Whether no runner of it runs or will."""
        return all(node.over for node in self.nodes)

    def observation(self) -> Observation:
        """The observation by its nodes, and for one that is over by its request to leave."""
        return observation([node.facts for node in self.nodes], self.leave_request() if self.over else None)

    @property
    def is_to_end(self) -> bool:
        """Whether a user ends its run for good."""
        return (request := self.leave_request()) is not None and request.ends

    def leave_request(self) -> LeaveRequest | None:
        """The attempt's current request to leave; None if there is none."""
        try:
            return LeaveRequest(untrusted.read_object(self.paths.ask)["ask"])
        except (OSError, ValueError, KeyError, TypeError):
            return None


class Views:
    """The attempts below layouts, each opened once and kept while it is used. Thread-safe."""

    def __init__(self, *layouts: Layout) -> None:
        self._layouts = layouts
        self._lock = Lock()
        self._views: OrderedDict[str, AttemptView] = OrderedDict()

    def find(self, attempt_id: str) -> AttemptView | None:
        """The view of an attempt, from memory if possible; None if it is unknown."""
        with self._lock:
            view = self._views.get(attempt_id)
            if view is not None:
                self._views.move_to_end(attempt_id)
                return view
        for layout in self._layouts:
            directory = layout.attempt(attempt_id)
            if directory is not None and (opened := open_view(attempt_id, directory)) is not None:
                return self._remember(opened)
        return None

    def add(self, directory: Path, launch: Launch) -> AttemptView:
        """The view of an attempt whose directory was just created."""
        return self._remember(AttemptView(directory, launch))

    def _remember(self, opened: AttemptView) -> AttemptView:
        with self._lock:
            view = self._views.setdefault(opened.attempt_id, opened)
            while len(self._views) > REMEMBERED_VIEWS:
                self._views.popitem(last=False)
            return view


def open_view(attempt_id: str, directory: Path) -> AttemptView | None:
    """The view of the attempt in `directory`; None if there is none.

    The directory is checked before its file is read: it appears complete, so an unreadable file means damage.
    In the other order, a directory created in between would count as damaged.
    """
    if not directory.is_dir():
        return None
    try:
        return AttemptView(directory, document.read_document(str(directory / protocol.ATTEMPT_FILE)))
    except document.Unreadable as problem:
        damage = f"its attempt.json cannot be read, the disk lost it: {problem}"
        return AttemptView(directory, Launch(attempt_id, number=0, token="", nodes=()), damage=damage)
