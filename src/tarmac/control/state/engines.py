"""The engines of a control plane by cluster, each with its own state: none waits for another.

Owned by `ControlState`; the deliver, reconcile and reap passes work for one `AttachedEngine` at a time.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from threading import BoundedSemaphore
from typing import Any

from tarmac.control.decisions.idleness import Idleness
from tarmac.control.state.metric_intake import MetricIntake
from tarmac.model import abilities
from tarmac.model.cluster import BURST_PREFIX, LOCAL_ENGINE, Cluster
from tarmac.model.codec import replace
from tarmac.model.errors import Unavailable
from tarmac.model.kinds.engines import EngineKind, ExaminesCluster
from tarmac.model.lifecycle import LeaveRequest
from tarmac.model.ports import Engine
from tarmac.model.run import Attempt
from tarmac.model.spec import RunSpec
from tarmac.sched import Placement, Refusal

SLOW_S = 10.0
"""A call that takes longer is shown to users who ask what their run waits for."""

MOST_QUESTIONS = 8
ANSWER_S = 2.0
"""The limits of questions by users: so many may wait for one engine, another waits this long for its turn."""


class _Deliveries:
    """Submitted attempts and the last leave request delivered to each, by attempt id; written by one thread.

    `refused` has the reason why the engine will never take an attempt: it is not submitted again, and ends.
    `not_before` is the end of the pause of one that it could not take. After a restart of this process the
    deliveries are repeated: all are idempotent.
    """

    def __init__(self) -> None:
        self.submitted: set[str] = set()
        self.leave_requests: dict[str, LeaveRequest] = {}
        self.refused: dict[str, str] = {}
        self.not_before: dict[str, float] = {}
        self._at_last_cleanup = 0

    def __len__(self) -> int:
        """The number of attempts recorded since ended ones were last forgotten."""
        return len(self.submitted) - self._at_last_cleanup

    def keep_only(self, attempt_ids: set[str]) -> None:
        """Forget attempts that are no longer live."""
        self.submitted &= attempt_ids
        for table in (self.leave_requests, self.refused, self.not_before):
            for gone in table.keys() - attempt_ids:
                del table[gone]
        self._at_last_cleanup = len(self.submitted)


class Rest:
    """The pause of an engine that failed several times in a row; used by one thread.

    A single failure may concern one attempt only.
    """

    TRIES = 3

    def __init__(self, pace: abilities.Pace) -> None:
        self._pace = pace
        self.failed_calls = 0
        self._failures = 0
        self._until = float("-inf")
        self._trouble: str | None = None
        self._called_at: float | None = None

    def trouble(self, now: float) -> str | None:
        """The last error while the engine fails; a sentence on its silence while it does not answer."""
        called_at = self._called_at
        if called_at is not None and now - called_at > SLOW_S:
            return f"no answer for {now - called_at:.0f} s"
        return self._trouble

    def over(self, now: float) -> bool:
        """Whether the engine may be called."""
        return now >= self._until

    def note_call(self, now: float) -> None:
        """A call begins."""
        self._called_at = now

    def note_answer(self) -> None:
        """The call succeeded."""
        self._called_at = self._trouble = None
        self._failures, self._until = 0, float("-inf")

    def note_failure(self, error: Exception, now: float) -> None:
        """The call failed for a temporary reason."""
        self._called_at = None
        self.failed_calls += 1
        self._failures += 1
        self._trouble = str(error)
        doublings = self._failures - self.TRIES
        if doublings >= 0:
            rest_s = self._pace.rest_s * 2 ** min(doublings, 20)
            self._until = now + min(rest_s, self._pace.longest_rest_s)


class AttachedEngine:
    """An engine, its abilities, and this process's deliveries to it; `key` identifies it."""

    def __init__(self, key: str, engine: Engine[Any], *, answer_s: float = ANSWER_S) -> None:
        self.key = key
        self._answer_s = answer_s
        self.adapter = engine
        self.name = engine.name
        self.attachment = engine if isinstance(engine, abilities.Attachable) else None
        self.together = engine if isinstance(engine, abilities.SubmitsTogether) else None
        self.inventory = engine if isinstance(engine, abilities.OffersNodes) else None
        self.describer = engine if isinstance(engine, abilities.DescribesClusters) else None
        self.users = engine if isinstance(engine, abilities.RunsAsUsers) else None
        self.delegate = engine if isinstance(engine, abilities.Delegates) else None
        self.examiner = engine if isinstance(engine, ExaminesCluster) else None
        self.files = engine if isinstance(engine, abilities.KeepsFiles) else None
        self.metric_intake = MetricIntake(engine) if isinstance(engine, abilities.ReadsReports) else None
        self.pace = self.attachment.pace() if self.attachment is not None else abilities.Pace()
        self.answers: tuple[object, dict[object, Placement | Refusal]] = (None, {})  # see `delegation`
        self.deliveries = _Deliveries()
        self.idle: dict[str, Idleness] = {}  # attempts that use none of their slots, see `idle`
        self.delivery_rest = Rest(self.pace)
        self.observation_rest = Rest(self.pace)
        self._questions = BoundedSemaphore(MOST_QUESTIONS)

    def trouble(self, now: float) -> str | None:
        """The reason why the engine cannot be reached; None if it answered its last call."""
        return self.delivery_rest.trouble(now) or self.observation_rest.trouble(now)

    @property
    def failed_calls(self) -> int:
        """The number of failed calls by the loops since the engine was attached."""
        return self.delivery_rest.failed_calls + self.observation_rest.failed_calls

    @contextmanager
    def question(self) -> Iterator[Engine[Any]]:
        """The engine, for a question that a client waits for, in a thread that serves all kinds of requests.

        Raises Unavailable if many wait already: an engine that hangs blocks few of these threads, and none of
        those for other engines.
        """
        if not self.key:  # the server's own
            yield self.adapter
            return
        if not self._questions.acquire(timeout=self._answer_s):
            raise Unavailable(f"the engine of cluster {self.key} does not answer", hint="try again later")
        try:
            yield self.adapter
        finally:
            self._questions.release()


class _NotOpen:
    """Replaces the engine of a cluster whose kind this server does not have: its state is unknown."""

    def __init__(self, cluster: Cluster) -> None:
        self.name = cluster.engine
        self._why = f"this server has no engine of the kind {cluster.engine!r}"

    def _refuse(self, *_arguments: object, **_named: object) -> Any:
        raise Unavailable(self._why)

    render = submit = observe = request_leave = workers = notices = read = _refuse


class Engines:
    """All engines: `own` serves this server's cluster, and every described one of the same kind.

    Each cluster of another of `kinds` has its own engine, open while it is described. `alone`: there is only
    the server's own. `inventories` are those that offer nodes.
    """

    def __init__(
        self, own: AttachedEngine, others: Mapping[str, Engine[Any]], kinds: Mapping[str, EngineKind]
    ) -> None:
        self.own = own
        self.kinds = kinds
        self.changed: Callable[[], None] = lambda: None
        self._others = {cluster: AttachedEngine(cluster, engine) for cluster, engine in others.items()}
        self._opened: dict[str, Cluster] = {}
        self._note_others()

    def __iter__(self) -> Iterator[AttachedEngine]:
        yield self.own
        yield from tuple(self._others.values())

    def serves(self, cluster: Cluster) -> bool:
        """Whether the server's own engine serves this described cluster."""
        return cluster.engine in (self.own.name, LOCAL_ENGINE)

    def open(self, clusters: Iterable[Cluster]) -> None:
        """Open an engine for each of these clusters that needs its own, and close the others.

        Other machines or rules of pools reopen no engine: it finds its nodes itself, and uses no rules.
        """
        clusters_by_name = {
            cluster.name: replace(cluster, machines=(), pools=())
            if cluster.machines or cluster.pools
            else cluster
            for cluster in clusters
            if not self.serves(cluster)
        }
        if clusters_by_name == self._opened:
            return
        others = {name: engine for name, engine in self._others.items() if name not in self._opened}
        for name, cluster in clusters_by_name.items():
            same = self._opened.get(name) == cluster
            others[name] = self._others[name] if same else AttachedEngine(name, self._open(cluster))
        self._others, self._opened = others, clusters_by_name
        self._note_others()
        self.changed()

    def close(self) -> None:
        """Release every cluster and its engine; runs continue."""
        for engine in self:
            if engine.attachment is not None:
                engine.attachment.close()

    def at(self, cluster: str) -> AttachedEngine:
        """The engine of a cluster."""
        return self._others.get(cluster, self.own)

    def with_unknown_nodes(self, cluster: str | None) -> list[str]:
        """The clusters for runs of this one (None: of any cluster) whose nodes are not all known yet."""
        inventories = ((each.key, each.inventory) for each in self if cluster in (None, each.key))
        return [key for key, known in inventories if known is not None and not known.knows_nodes()]

    def delegate_of(self, cluster: str | None) -> AttachedEngine | None:
        """The engine of a cluster that has its own queue; None for every other cluster, and for None."""
        engine = self._others.get(cluster) if cluster is not None else None
        return engine if engine is not None and engine.delegate is not None else None

    def possible(self, spec: RunSpec) -> list[AttachedEngine]:
        """The engines that could get an attempt of a run; those of rented machines do not exist yet."""
        if spec.is_burst:
            return []
        if spec.rehearsal is not None:
            return [self.own]
        if spec.target.cluster is not None:
            return [self.at(spec.target.cluster)]
        return [engine for engine in self if engine.inventory is not None]

    def of(self, attempt: Attempt) -> AttachedEngine:
        """The engine of the attempt; files from machines that were given back are at the server's own."""
        placed = attempt.allocation
        engine = self.at(placed.cluster)
        nodes = engine.inventory if placed.cluster.startswith(BURST_PREFIX) else None
        if attempt.ended_at is None or nodes is None or not nodes.knows_nodes():
            return engine
        return engine if {each.name for each in nodes.nodes()}.issuperset(placed.nodes) else self.own

    def _note_others(self) -> None:
        self.alone = not self._others
        self.inventories = tuple(each.inventory for each in self if each.inventory is not None)

    def _open(self, cluster: Cluster) -> Engine[Any]:
        kind = self.kinds.get(cluster.engine)
        return kind.open(cluster) if kind is not None else _NotOpen(cluster)
