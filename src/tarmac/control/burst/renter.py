"""The parts that `renting` and `reaping` share: adapters of providers, calls, and changes of rentals.

Calls of providers and machines may take minutes: `Threads` makes them in threads, one at a time of a key.
Tests do them at once (`Calls`).
"""

import logging
from collections import deque
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from threading import Lock, Thread

from tarmac.control.burst.deciding import Trouble, released
from tarmac.control.burst.market import BurstRules
from tarmac.control.clusters import Clusters
from tarmac.control.decisions.apply_observation import apply_observation
from tarmac.control.state.control_state import ControlState
from tarmac.control.state.event_bus import Wakeup
from tarmac.model.burst.provider import Provider, ProviderKind, ProviderRecord, RentRefused
from tarmac.model.burst.rentals import Rental, RentalStep, RentedClusters
from tarmac.model.cluster import Drain
from tarmac.model.errors import InvalidInput, NotFound, TarmacError, Unavailable, suggestion
from tarmac.model.ports import Observation, ObservedState
from tarmac.model.progress import Cause, CauseCode, Outcome
from tarmac.model.run import Attempt, Run

log = logging.getLogger(__name__)

GIVEN_BACK = "its rented machines were given back"

MOST_THREADS = 100
"""The maximum of calls at the same time; others wait for a thread."""


class Calls:
    """Begins calls by key; this one does each at once."""

    def begin(self, key: str, call: Callable[[], None]) -> None:  # noqa: ARG002 threads have names
        """Begin a call, unless one with its key is at work."""
        with suppress(Unavailable, RentRefused):
            call()

    def busy(self, key: str) -> bool:  # noqa: ARG002 threads have names
        """Whether a call with this key is at work."""
        return False


class Threads(Calls):
    """Makes calls in threads; `ready` is called after each. One that hangs ends with the process."""

    def __init__(self, ready: Callable[[], None]) -> None:
        self._ready, self._lock = ready, Lock()
        self._busy: set[str] = set()
        self._waiting: deque[tuple[str, Callable[[], None]]] = deque()
        self._threads = 0

    def begin(self, key: str, call: Callable[[], None]) -> None:
        with self._lock:
            if key in self._busy:
                return
            self._busy.add(key)
            self._waiting.append((key, call))
            if self._threads == MOST_THREADS:
                return
            self._threads += 1
        Thread(target=self._make_calls, name="burst", daemon=True).start()

    def busy(self, key: str) -> bool:
        return key in self._busy

    def _make_calls(self) -> None:
        while True:
            with self._lock:
                if not self._waiting:
                    self._threads -= 1
                    return
                key, call = self._waiting.popleft()
            self._do(key, call)

    def _do(self, key: str, call: Callable[[], None]) -> None:
        try:
            call()
        except TarmacError as error:
            log.warning("%s: %s", key, error)
        except Exception:
            log.exception("%s", key)
        finally:
            with self._lock:
                self._busy.discard(key)
            self._ready()


@dataclass(frozen=True, slots=True)
class BurstParts:
    """Kinds of providers by name, the maker of clusters (None: nothing is rented), and the rules."""

    kinds: Mapping[str, ProviderKind] = field(default_factory=dict)
    rented: RentedClusters | None = None
    rules: BurstRules = field(default_factory=BurstRules)
    calls: Callable[[Callable[[], None]], Calls] = lambda _ready: Calls()


NOTHING_RENTED = BurstParts()


class Renter:
    """The adapters of the providers, and every change of a rental, under the lease."""

    def __init__(self, control: ControlState, clusters: Clusters, parts: BurstParts) -> None:
        self.control, self.clusters, self.parts = control, clusters, parts
        self.calls = parts.calls(lambda: control.event_bus.notify(Wakeup.BURST))
        self._opened: dict[str, tuple[ProviderRecord, Provider]] = {}

    def open(self, record: ProviderRecord) -> Provider:
        """The adapter of a provider; raises InvalidInput for a record that makes none."""
        known = self._opened.get(record.name)
        if known is None or known[0] != record:
            kinds = sorted(self.parts.kinds)
            if record.kind not in kinds:
                hint = suggestion(record.kind, kinds, f"kinds: {', '.join(kinds) or 'none'}")
                raise InvalidInput(f"there is no kind of provider {record.kind!r} here", hint=hint)
            self.parts.kinds[record.kind].check(record)
            known = self._opened[record.name] = record, self.parts.kinds[record.kind].open(record)
        return known[1]

    def provider(self, name: str) -> ProviderRecord:
        """The provider of this name; raises NotFound."""
        found = {each.name: each for each in self.control.store.rentals.providers()}
        if name not in found:
            hint = suggestion(name, found, f"providers: {', '.join(sorted(found)) or 'none'}")
            raise NotFound(f"there is no provider {name!r}", hint=hint)
        return found[name]

    def rental(self, known: Rental) -> Rental | None:
        """The stored state of a rental."""
        found = self.control.store.rentals.rentals(run_ids=[known.run_id])
        return next((each for each in found if each.id == known.id), None)

    def change(self, before: Rental | None, after: Rental) -> bool:
        """Make a change durable; False if the rental has changed since."""
        control = self.control
        [taken] = control.store.rentals.apply([RentalStep(before=before, after=after)], lease=control.serving)
        if taken:
            listed = ["/runs"] if before is None else []  # its run is no longer staged
            control.event_bus.tell(["/burst", after.run_id, *listed])
        return taken

    def release(self, rental: Rental, end: Trouble) -> None:
        """Give its machines back from now on; no run is placed on them any more."""
        with self.control.lock:
            if self.change(rental, released(rental, end, self.control.clock.now())):
                self.withdraw(rental.cluster)

    def withdraw(self, cluster: str, *, gone: bool = False) -> None:
        """Remove a cluster, or keep further runs from it while one is on it. `gone`: its machines are."""
        control = self.control
        with control.lock:
            here = [each for each in control.live() if each[1].allocation.cluster == cluster]
            if gone and here:
                self._end(here)
                here = []
            if not here:
                self.clusters.forget(cluster)
            else:
                self.drain(cluster)

    def drain(self, cluster: str) -> None:
        """Keep further runs from the nodes of a cluster."""
        control = self.control
        names = {node.name for node in control.lasting_nodes() if node.cluster == cluster}
        if names - control.store.drained_nodes().keys():
            control.set_drained(names, Drain(at=control.clock.now(), reason=GIVEN_BACK))

    def _end(self, here: list[tuple[Run, Attempt]]) -> None:
        """End attempts whose machines are gone, as the platform's doing."""
        cause = Cause(code=CauseCode.PREEMPTION, message=GIVEN_BACK)
        seen = Observation(state=ObservedState.ENDED, outcome=Outcome.PREEMPTED, cause=cause)
        now = self.control.clock.now()
        found = [apply_observation(run, attempt, seen, now) for run, attempt in here]
        self.control.commit([step for step in found if step is not None], lease=self.control.serving)
