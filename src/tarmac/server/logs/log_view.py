"""The messages for a follower of a run's logs: chunks, states, notices, and the end.

Synchronous, and run in a thread by `streams`; one `LogView` serves one client. It reads the state before the
files, and so ends only after every byte of every log was sent. A query has to name existing logs: an empty
answer would hide the error.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from msgspec import Struct, field

from tarmac import api
from tarmac.api.history_operations import LogChoice, LogsQuery, StreamNotice
from tarmac.control.service import ControlPlane
from tarmac.launch.compose import container_launch
from tarmac.model.actor import Actor
from tarmac.model.errors import NotFound, Unavailable, suggestion
from tarmac.model.lifecycle import AttemptState, RunState
from tarmac.model.progress import Notice, WorkerPlacement
from tarmac.model.run import Attempt, Run
from tarmac.model.spec import Hooks, Role, RunSpec
from tarmac.node.attempt.protocol import LOGS
from tarmac.node.files.masking import NO_SECRETS, Mask
from tarmac.server.logs.log_files import LogFile, reader, since_offset, tail_start
from tarmac.server.logs.log_times import LogTimes
from tarmac.server.records import run_record, status_record
from tarmac.systems.registry import dialect_of

Message = tuple[str, Struct]
"""Name and data of a message of the stream."""

_NO_HOOKS = Hooks()


class LogQuery(LogsQuery, frozen=True, kw_only=True):
    """Selects logs and their start: of each worker the last `tail` existing lines, or those since a time.

    The lines of a worker are counted over all attempts. `since_at` is a time; `places` are the next offsets
    of a returning client, and override both. A following query with `times` gets a line once its time is
    known.
    """

    follow: bool = False
    since_at: float | None = None
    places: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class LogSlice:
    """The messages of one read. `more`: another read may find more at once; `over`: no messages follow."""

    messages: tuple[Message, ...]
    more: bool
    over: bool


class LogView:
    """Follows the logs of one run for one client."""

    def __init__(
        self,
        plane: ControlPlane,
        actor: Actor,
        reference: str,
        query: LogQuery,
        masks: Callable[[Run], Mask] = lambda _run: NO_SECRETS,
    ) -> None:
        self._masks = masks
        self._plane = plane
        self._actor = actor
        self._run = plane.find_here(actor, reference)
        check_choice(query, self._run, plane.attempts(actor, self._run.id))
        self.run_id = self._run.id
        self.follows = query.follow
        """Whether the client also wants future messages."""
        self._query = query
        self._open: dict[int, _AttemptView] = {}
        self._closed: set[int] = set()
        self._tails: Tails = {}
        self._places = dict(query.places)
        self._state: api.RunStatus | None = None
        self._newest: Attempt | None = None
        self._surveyed = False

    @property
    def idle(self) -> bool:
        """Whether no file is open: news can only come from the control plane."""
        return not self._open

    @property
    def period_s(self) -> float:
        """The polling interval of open files: a follower's delay is slightly longer."""
        return max((view.period_s for view in self._open.values()), default=0.0)

    @property
    def run(self) -> api.Run:
        """The run in its last read state."""
        return run_record(self._run)

    def places(self) -> dict[str, int]:
        """The next offset of every sent log, in the form that clients return."""
        for view in self._open.values():
            self._places.update(view.places())
        return self._places

    def look(self, *, survey: bool) -> LogSlice:
        """New messages. With `survey` it also reads the state of the run, not only its files.

        Raises Unavailable if files cannot be read now, but only after it has returned all earlier messages.
        """
        messages: list[Message] = []
        if survey or not self._surveyed:
            messages += self._survey()
        found: list[Message] = []
        try:
            for message in self._new_messages():
                found.append(message)
        except Unavailable:
            if not (messages or found):
                raise
            return LogSlice(messages=(*messages, *found), more=True, over=False)
        over = not found and self._over()
        if over:
            messages += self._state_messages()
        return LogSlice(messages=(*messages, *found), more=bool(found), over=over)

    def _survey(self) -> list[Message]:
        """Read the state of the run. Reports its end only after the last byte of its logs."""
        self._run = self._plane.find(self._actor, self._run.id)
        attempts = self._plane.attempts(self._actor, self._run.id)
        self._newest = attempts[-1] if attempts else None
        for attempt in reversed(attempts):  # tails are counted back from the newest line
            number = attempt.number
            if number in self._closed or self._query.attempt not in (None, number):
                continue
            if number not in self._open:
                self._open[number] = _AttemptView(
                    self._plane, self._actor, attempt, self._query, mask=self._mask, tails=self._tails
                )
            self._open[number].update(attempt, setup=sets_up(self._run.spec), old=not self._surveyed)
        self._open = dict(sorted(self._open.items()))
        self._surveyed = True
        return [] if self._run.state is RunState.ENDED else self._state_messages()

    def _mask(self) -> Mask:
        return self._masks(self._run)

    def _state_messages(self) -> list[Message]:
        state = status_record(self._run, self._newest)
        if state == self._state:
            return []
        self._state = state
        return [("state", state)]

    def _new_messages(self) -> Iterator[Message]:
        """New messages of the first attempt that has any: attempts are shown one after the other.

        Closes an ended attempt once its files have no new content.
        """
        for number, view in list(self._open.items()):
            found = False
            for message in view.look():
                found = True
                yield message
            if found:
                return
            if view.ended:
                yield from view.rest()
                self._places.update(view.places())
                self._closed.add(number)
                del self._open[number]

    def _over(self) -> bool:
        """Whether no messages can follow: the run has ended, or the only attempt of the query has."""
        return self._run.state is RunState.ENDED or self._query.attempt in self._closed


def sets_up(spec: RunSpec) -> bool:
    """Whether setup steps, commands around the workers, or image downloads write logs as well."""
    has_steps = bool(spec.setup) or dialect_of(spec.conventions.system).adds_setup
    return has_steps or spec.hooks != _NO_HOOKS or container_launch(spec) is not None


Tails = dict[tuple[str, int, int], int]
"""By role, replica and worker: the number of lines still to take from older attempts."""


class _AttemptView:
    """The files of one attempt."""

    def __init__(
        self,
        plane: ControlPlane,
        actor: Actor,
        attempt: Attempt,
        query: LogQuery,
        *,
        mask: Callable[[], Mask],
        tails: Tails,
    ) -> None:
        self.ended = False
        self.period_s = plane.read_period_s(attempt.id)
        self._mask = mask
        self._plane = plane
        self._actor = actor
        self._attempt = attempt
        self._query = query
        self._tails = tails
        self._old = True
        self._read = reader(plane, actor, attempt.id)
        self._logs: dict[str, LogFile] = {}
        self._sent_notices: set[Notice] = set()

    def update(self, attempt: Attempt, *, setup: bool, old: bool) -> None:
        """Apply the state of the attempt, and add newly started workers.

        `old`: the workers had started before the client connected, so `tail` and `since` apply to them.
        """
        self._old = old
        self._attempt = attempt
        self.ended = attempt.state is AttemptState.ENDED
        for source, path in logs_of(self._plane, self._actor, attempt, setup=setup):
            self._add(source, path)

    def places(self) -> dict[str, int]:
        return {name: log.next for name, log in self._logs.items()}

    def look(self) -> Iterator[Message]:
        """New notices, and up to a block from each log."""
        for notice in self._plane.notices(self._actor, self._attempt.id):
            if notice not in self._sent_notices:
                self._sent_notices.add(notice)
                yield "notice", StreamNotice(text=notice.text, attempt=self._attempt.number, node=notice.node)
        for log in self._logs.values():
            if chunk := log.chunk():
                yield "log", chunk

    def rest(self) -> Iterator[Message]:
        """The bytes held back at the end of each log."""
        for log in self._logs.values():
            if chunk := log.rest():
                yield "log", chunk

    def _add(self, source: api.LogSource, path: str) -> None:
        name, role = source.name, source.role
        if name in self._logs or not self._query.wants(source):
            return
        log = LogFile(self._read, path, source=source, mask=self._mask, times=self._times(role, path))
        log.seek(self._first_offset(name, (role, source.replica, source.worker), path))
        self._logs[name] = log

    def _times(self, role: str, path: str) -> LogTimes | None:
        if not self._query.times:
            return None

        def now() -> float | None:
            """The setup index begins when the workers start; that of a killed runner lacks the end."""
            ended_at = self._attempt.ended_at
            if ended_at is not None or (self._query.follow and role != SETUP_ROLE):
                return ended_at
            return self._plane.control.clock.now()

        return LogTimes(self._read, path, now=now)

    def _first_offset(self, name: str, worker: tuple[str, int, int], path: str) -> int:
        if name in self._query.places:
            self._tails[worker] = 0  # no more lines of older attempts are needed
            return self._query.places[name]
        if not self._old:
            return 0
        offset = 0
        if self._query.since_at is not None:
            offset = since_offset(self._read, path, self._query.since_at)
        if self._query.tail is not None:
            lines = self._tails.get(worker, self._query.tail)
            start, found = tail_start(self._read, path, lines)
            self._tails[worker] = lines - found
            offset = max(offset, start)
        return offset


SETUP_ROLE = "setup"
"""The role of the output of setup steps and hooks; its replica is the rank of the node."""


def logs_of(
    plane: ControlPlane, actor: Actor, attempt: Attempt, *, setup: bool
) -> Iterator[tuple[api.LogSource, str]]:
    """The logs of an attempt that exist now, with their paths; with `setup` also those of its nodes."""
    if setup and attempt.state is not AttemptState.SUBMITTED:  # its nodes are unnamed until then
        for rank, node in enumerate(attempt.allocation.nodes):
            yield _source(attempt, SETUP_ROLE, rank, 0, node=node), f"{LOGS}/setup.{node}.log"
    for each in plane.workers(actor, attempt.id):
        place = (each.role, each.replica, each.index)
        yield _source(attempt, *place, node=each.node, rank=each.rank), each.log


def _source(
    attempt: Attempt, role: str, replica: int, worker: int, *, node: str, rank: int | None = None
) -> api.LogSource:
    return api.LogSource(
        attempt=attempt.number, role=role, replica=replica, worker=worker, rank=rank, node=node
    )


def check_choice(query: LogChoice, run: Run, attempts: Sequence[Attempt]) -> None:
    """Raise NotFound for an attempt, role, replica, worker or rank that the run does not have.

    Before the slots are granted, numbers that depend on them are not checked: the number of replicas, of
    processes that a launcher starts for each slot, and of ranks.
    """
    attempt, role, replica = query.attempt, query.role, query.replica
    if attempt is not None and attempt not in {each.number for each in attempts}:
        had = f"it has had {len(attempts)} so far" if attempts else "it has not started yet"
        raise NotFound(f"there is no attempt {attempt} of {run.name} ({run.id}): {had}")
    roles = {each.name: each for each in run.spec.roles}
    if role is not None and role != SETUP_ROLE and role not in roles:
        hint = suggestion(role, roles, f"its roles: {', '.join(sorted(roles))}")
        raise NotFound(f"there is no role {role!r} in {run.name} ({run.id})", hint=hint)
    if role == SETUP_ROLE and role not in roles:
        return
    chosen = [roles[role]] if role is not None else list(roles.values())
    granted = [
        placement
        for each in attempts
        if attempt in (None, each.number)
        for placement in each.allocation.placements
        if any(placement.role == known.name for known in chosen)
    ]
    most = max(_workers(each, granted) for each in chosen)
    if query.worker is not None and query.worker >= most > 0:
        raise NotFound(f"there is no worker {query.worker} of {_named(chosen)}: {_range('worker', most)}")
    replicas = {placement.replica for placement in granted}
    if replica is not None and replicas and replica not in replicas:
        raise NotFound(
            f"there is no replica {replica} of {_named(chosen)}: {_range('replica', max(replicas) + 1)}"
        )
    ranks = max((_ranks(each, attempts, attempt) for each in chosen), default=0)
    if query.rank is not None and query.rank >= ranks > 0:
        raise NotFound(f"there is no rank {query.rank} of {_named(chosen)}: {_range('rank', ranks)}")


def _workers(role: Role, granted: Sequence[WorkerPlacement]) -> int:
    """Maximum workers of a replica of a role; 0 if it depends on slots that are not granted yet."""
    if role.launcher is None:
        return len(role.processes)
    return max(
        (max(1, len(placement.slots)) for placement in granted if placement.role == role.name), default=0
    )


def _ranks(role: Role, attempts: Sequence[Attempt], number: int | None) -> int:
    """Maximum ranks of a role in one of the attempts."""
    if role.launcher is None:
        return 0
    return max(
        (
            sum(max(1, len(each.slots)) for each in attempt.allocation.placements if each.role == role.name)
            for attempt in attempts
            if number in (None, attempt.number)
        ),
        default=0,
    )


def _named(roles: Sequence[Role]) -> str:
    return f"role {roles[0].name}" if len(roles) == 1 else "any role"


def _range(word: str, count: int) -> str:
    owner = "a replica has" if word == "worker" else "there is" if count == 1 else "there are"
    return f"{owner} one, {word} 0" if count == 1 else f"{owner} 0 to {count - 1}"
