"""The subscriptions to runs as this server knows them. Owned by `ControlState`."""

from collections.abc import Callable, Mapping, Sequence

from tarmac.control.state.run_cache import RunCache
from tarmac.model.notification import Subscription
from tarmac.model.ports import Store
from tarmac.model.run import Run

SubscriptionsByRun = Callable[[Run], Sequence[Subscription]]


def no_subscriptions(_run: Run) -> Sequence[Subscription]:
    """The subscriptions of a server that joins no tracker."""
    return ()


class Subscriptions:
    """The subscriptions in the specs of runs, those of the settings to every run, and those of people.

    People subscribe to all of their own runs.
    """

    def __init__(
        self, store: Store, always: Sequence[Subscription], trackers: SubscriptionsByRun, *, known: bool
    ) -> None:
        """`always`: to every run. `trackers`: of other programs that track a run, as its spec names them.

        `known`: people have none, and never will.
        """
        self._store, self._always, self._trackers = store, tuple(always), trackers
        self._personal: Mapping[str, tuple[Subscription, ...]] | None = {} if known else None

    def of(self, run: Run) -> tuple[Subscription, ...]:
        """All subscriptions to a run. Reads those of people on the first call."""
        if self._personal is None:
            self._personal = self._store.notifications.subscriptions()
        return (*run.spec.notify, *self._always, *self._trackers(run), *self._personal.get(run.user, ()))

    def refresh(self, cache: RunCache) -> None:
        """Read those of people again, also for the runs that wait now. Use it under the lock of the cache."""
        before, self._personal = self._personal, self._store.notifications.subscriptions()
        for run in cache.runs.values() if before != self._personal else ():
            cache.long_waits.note(run)
