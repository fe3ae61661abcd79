"""The engines of a control plane by cluster, and what is kept for each alone: none waits for another.

Owned by `world.World`; the deliver, reconcile and reap passes work for one `AttachedEngine` at a time.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from tarmac.control.deliveries import Deliveries
from tarmac.model.abilities import (
    Delegates,
    DescribesClusters,
    OffersNodes,
    OffersPorts,
    Pace,
    Reaps,
    SetsPace,
)
from tarmac.model.ports import Engine
from tarmac.model.run import Attempt


class Rest:
    """How long an engine is left alone after it failed several times in a row; used by one thread.

    One failure may be of one attempt alone. `trouble` is what the engine said last, while it fails.
    """

    TRIES = 3

    def __init__(self, pace: Pace) -> None:
        self._pace = pace
        self._failures = 0
        self._until = float("-inf")
        self.trouble: str | None = None

    def over(self, now: float) -> bool:
        """Whether the engine may be called."""
        return now >= self._until

    def note_answer(self) -> None:
        """A call succeeded."""
        self._failures, self._until, self.trouble = 0, float("-inf"), None

    def note_failure(self, error: Exception, now: float) -> None:
        """A call failed for a reason that may pass."""
        self._failures += 1
        self.trouble = str(error)
        doublings = self._failures - self.TRIES
        if doublings >= 0:
            rest_s = self._pace.rest_s * 2 ** min(doublings, 20)
            self._until = now + min(rest_s, self._pace.longest_rest_s)


class AttachedEngine:
    """An engine, its abilities, and what this process has passed on to it; `key` tells it from others."""

    def __init__(self, key: str, engine: Engine[Any]) -> None:
        self.key = key
        self.adapter = engine
        self.name = engine.name
        self.inventory = engine if isinstance(engine, OffersNodes) else None
        self.delegate = engine if isinstance(engine, Delegates) else None
        self.describer = engine if isinstance(engine, DescribesClusters) else None
        self.port_finder = engine if isinstance(engine, OffersPorts) else None
        self.reaper = engine if isinstance(engine, Reaps) else None
        self.pace = engine.pace() if isinstance(engine, SetsPace) else Pace()
        self.deliveries = Deliveries()
        self.delivery_rest = Rest(self.pace)
        self.observation_rest = Rest(self.pace)

    @property
    def trouble(self) -> str | None:
        """Why the engine could not be reached when it was last called; None where it answered."""
        return self.delivery_rest.trouble or self.observation_rest.trouble


class Engines:
    """All engines: `own` serves this server's cluster and every one that has no engine of its own."""

    def __init__(self, own: AttachedEngine, others: Mapping[str, Engine[Any]]) -> None:
        self.own = own
        self._others = {cluster: AttachedEngine(cluster, engine) for cluster, engine in others.items()}

    def __iter__(self) -> Iterator[AttachedEngine]:
        yield self.own
        yield from self._others.values()

    @property
    def alone(self) -> bool:
        """Whether there is no other engine than the server's own."""
        return not self._others

    def at(self, cluster: str) -> AttachedEngine:
        """The engine of a cluster."""
        return self._others.get(cluster, self.own)

    def delegate_of(self, cluster: str | None) -> AttachedEngine | None:
        """The engine of a cluster that has a queue of its own; None for every other cluster, and for any."""
        engine = self._others.get(cluster) if cluster is not None else None
        return engine if engine is not None and engine.delegate is not None else None

    def of(self, attempt: Attempt) -> AttachedEngine:
        """The engine that an attempt was given to."""
        return self.at(attempt.allocation.cluster)
