"""Clusters with their own queue: their possible requests, and the split of a request over nodes.

The placement code places a request on the cluster as if it were idle: this decides whether the request fits
at all, and its number of nodes. The cluster chooses the nodes; until then they are named by their rank.
Called by admission, and by the passes that submit and deliver.
"""

import math
from collections.abc import Sequence

from tarmac.control.decisions.steps import renamed
from tarmac.control.state.engines import AttachedEngine
from tarmac.control.state.facts import candidate_of
from tarmac.model.cluster import TURN_S, Node, QueueOffer
from tarmac.model.codec import replace
from tarmac.model.errors import Refused, Unavailable, listed, nearest
from tarmac.model.lifecycle import Mode
from tarmac.model.progress import CauseCode
from tarmac.model.resources import Reason, ReasonCode
from tarmac.model.run import Attempt, Run
from tarmac.model.spec import RunSpec
from tarmac.node.attempt.protocol import late_address, rank_name
from tarmac.sched import Candidate, Placement, Refusal, Snapshot, Waiting, explain

NAMES_SHOWN = 8
MOST_ANSWERS = 1024
"""The number of different requests to a cluster that are cached with their answers."""


def capacity_of(engine: AttachedEngine) -> tuple[Node, ...]:
    """The nodes of a cluster that has its own queue, as if idle; none while they are unknown."""
    return tuple(engine.delegate.capacity()) if engine.delegate is not None else ()


def learn_capacity(engine: AttachedEngine) -> None:
    """Read the capacity if it is unknown, as a client waits for the answer. Raises Unavailable."""
    if engine.delegate is not None and not engine.delegate.capacity():
        with engine.question():
            engine.delegate.read_capacity()


def refuse_unknown_hostnames(spec: RunSpec, engine: AttachedEngine) -> None:
    """Refuse node names that the cluster does not have, whether to use or to avoid."""
    named = (*spec.target.hostnames, *spec.target.excluded)
    known = {node.hostname for node in capacity_of(engine)} if named else set()
    unknown = [name for name in named if name not in known] if known else []
    if unknown:
        near = nearest(unknown[0], known)
        there = f"it has {listed(sorted(known), NAMES_SHOWN)}"
        raise Refused(
            f"cluster {spec.target.cluster} has no node {unknown[0]!r}",
            hint=f"did you mean {near}? {there}" if near else there,
        )


def offers_of(engine: AttachedEngine) -> Sequence[QueueOffer]:
    """The queues of a cluster with its own; first the queue for runs that name none."""
    return engine.delegate.queues() if engine.delegate is not None else ()


def queue_of(run: Run, engine: AttachedEngine) -> QueueOffer | None:
    """The queue of a run: its pool's, otherwise that of its file, otherwise the first. None: of any pool."""
    offers, spec = offers_of(engine), run.spec
    pool, queue = run.place.pool or spec.target.pool, spec.site.queue if spec.site is not None else None
    named = (offer for offer in offers if pool is None and queue in (offer.pool, *offer.queue.split(",")))
    if pool is not None:
        named = (offer for offer in offers if offer.pool == pool)
    return next(named, offers[0] if offers and pool is None else None)


def queue_doubt(run: Run, engine: AttachedEngine) -> str | None:
    """The warning for a run whose file names a queue that the cluster does not have."""
    offer, site = queue_of(run, engine), run.spec.site
    if offer is None or site is None or run.spec.target.pool is not None:
        return None
    if site.queue in (offer.pool, *offer.queue.split(",")):
        return None
    return (
        f"queue {site.queue!r} is none of cluster {run.spec.target.cluster}: it goes to {offer.queue!r}; "
        f"--pool chooses of {', '.join(each.pool for each in offers_of(engine))}"
    )


def request_of(
    run: Run, engine: AttachedEngine, now: float, *, offer: QueueOffer | None = None
) -> Placement | Refusal | None:
    """The request to the cluster for a run, or why it can never fit; None while that is unknown.

    `offer`: a queue other than the run's own.
    """
    capacity = capacity_of(engine)
    if not capacity or (run.retry is not None and run.retry.at > now):
        return None  # the capacity is unknown, or the run pauses before its next try
    offer, candidate = offer or queue_of(run, engine), candidate_of(run)
    if offer is not None:
        candidate = replace(candidate, pool=None, target=replace(candidate.target, pool=None))
    limits = (offer.pool, offer.most_nodes) if offer is not None else (candidate.pool,)
    answers = _answers(engine, capacity)
    like = (candidate.demands, candidate.target, candidate.queueing, limits)
    if like not in answers:
        nodes = tuple(node for node in capacity if offer is None or node.pool == offer.pool)
        plain = replace(candidate, mode=Mode.BATCH, not_before=None, awaits=(), group=None)
        answers[like] = _answer(plain, nodes, offer, now)
    answer = replace(answers[like], run_id=run.id, seq=run.seq)
    if run.spec.mode is Mode.CYCLE and isinstance(answer, Placement):
        return replace(answer, allotted_s=TURN_S)
    return answer


def _answers(engine: AttachedEngine, capacity: tuple[Node, ...]) -> dict[object, Placement | Refusal]:
    """The answers for this capacity so far: runs come by the thousand, and many requests are equal."""
    known, answers = engine.answers
    if known is not capacity or len(answers) >= MOST_ANSWERS:
        answers = {}
        engine.answers = (capacity, answers)
    return answers


def _answer(
    candidate: Candidate, nodes: tuple[Node, ...], offer: QueueOffer | None, now: float
) -> Placement | Refusal:
    if offer is not None and not nodes:
        return _refusal(
            candidate, ReasonCode.NO_NODES, f"{offer.queue} of pool {offer.pool} has no such nodes"
        )
    idle = Snapshot(pools=(), nodes=nodes, queue=(candidate,), holdings=())
    found = explain(idle, candidate.run_id, now)
    assert not isinstance(found, Waiting), "an idle cluster takes it, or never will"
    if isinstance(found, Refusal):
        return found
    if offer is not None and len(found.allocation.nodes) > (offer.most_nodes or math.inf):
        return _too_many_nodes(found, offer)
    by_rank = [rank_name(rank) for rank, _ in enumerate(found.allocation.nodes)]
    return replace(found, allocation=replace(renamed(found.allocation, by_rank), delegated=True))


def _too_many_nodes(found: Placement, offer: QueueOffer) -> Refusal:
    """The refusal of a run that fits the nodes, but exceeds the node limit of its queue."""
    count, per_node = len(found.allocation.nodes), found.allocation.slots // len(found.allocation.nodes)
    text = f"it takes {count} nodes, and {offer.queue} gives a job {offer.most_nodes} at most"
    largest = f"slots: {per_node * (offer.most_nodes or 0)}" if per_node else None
    return _refusal(found, ReasonCode.TOO_SMALL, text, largest=largest)


def _refusal(
    of: Candidate | Placement, code: ReasonCode, text: str, *, largest: str | None = None
) -> Refusal:
    return Refusal(
        run_id=of.run_id,
        seq=of.seq,
        code=CauseCode.NEVER_FITS,
        reasons=(Reason(code=code, text=text),),
        largest=largest,
    )


def other_pools(run: Run, engine: AttachedEngine, now: float) -> list[str]:
    """Other pools of the cluster that could hold a run if its own cannot."""
    return [
        offer.pool
        for offer in offers_of(engine)
        if offer != queue_of(run, engine) and isinstance(request_of(run, engine, now, offer=offer), Placement)
    ]


def unnamed_nodes(attempt: Attempt, capacity: Sequence[Node]) -> dict[str, Node]:
    """Stand-ins for the nodes of an attempt, by name: like those of its pool, with stand-in addresses.

    Raises Unavailable while the nodes are unknown.
    """
    allocation = attempt.allocation
    alike = [
        node
        for node in capacity
        if node.pool == allocation.pool and node.capacity.slot_type in (allocation.slot_types or (None,))
    ]
    like = max(alike or capacity, key=lambda node: node.capacity.slots, default=None)
    if like is None:
        raise Unavailable(f"nothing is known yet of cluster {attempt.allocation.cluster}")
    return {
        name: replace(like, name=name, hostname=name, address=late_address(rank))
        for rank, name in enumerate(attempt.allocation.nodes)
    }
