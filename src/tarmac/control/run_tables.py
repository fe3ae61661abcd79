"""Tables of the runs that an actor may see, their changes, and saved views: for pages. Made by `service`."""

from tarmac.api.operation import RunScope
from tarmac.control.permissions import Action, check
from tarmac.control.queue.delegated_queue import with_stuck
from tarmac.control.state.control_state import ControlState
from tarmac.model.actor import Actor
from tarmac.model.codec import replace
from tarmac.model.errors import Refused
from tarmac.model.summary import Project, RunFilter, RunQuery, RunSummary, RunWindow, SavedView

MOST_VIEWS = 100
"""The most views that a user saves."""


def visible(actor: Actor, query: RunQuery, scope: RunScope) -> RunQuery:
    """The query for the runs in that scope that the actor may see."""
    check(actor, Action.READ)
    return replace(query, sight=actor.sees, user=actor.user if scope is RunScope.MINE else query.user)


class RunTables:
    """Answers questions about many runs. From any thread."""

    def __init__(self, control: ControlState) -> None:
        self._control = control

    def total(self, actor: Actor, query: RunQuery, scope: RunScope) -> int:
        """The number of runs of whose list the query is for a page."""
        return self._control.store.count_runs(visible(actor, query, scope))

    def window(self, actor: Actor, window: RunWindow) -> tuple[int, list[RunSummary]]:
        """The number of runs that pass the filters of a table, and those in the window."""
        check(actor, Action.READ)
        total, found = self._control.store.run_views.window(window, actor.sees)
        return total, with_stuck(self._control, found)

    def counts(self, actor: Actor, field: str, chosen: RunFilter) -> dict[str, int]:
        """The number of runs with each value of a field that pass the filters by other fields."""
        check(actor, Action.READ)
        return self._control.store.run_views.counts(field, chosen, actor.sees)

    def projects(self, actor: Actor) -> list[Project]:
        """The projects of the runs that the actor may see, that of the newest run first."""
        check(actor, Action.READ)
        return self._control.store.run_views.projects(actor.sees)

    def saved_views(self, actor: Actor) -> list[SavedView]:
        """The views that the actor has saved, by name."""
        return self._control.store.run_views.saved(actor.user)

    def save_view(self, actor: Actor, view: SavedView) -> list[SavedView]:
        """Save a view in place of the one with its name; returns all of the actor's."""
        check(actor, Action.ACCOUNT)
        known = self.saved_views(actor)
        if len(known) >= MOST_VIEWS and view.name not in {each.name for each in known}:
            raise Refused(f"you have {len(known)} views, the most", hint="delete one that you do not need")
        self._control.store.run_views.save(actor.user, view)
        return self.saved_views(actor)

    def forget_view(self, actor: Actor, name: str) -> list[SavedView]:
        """Delete a saved view, if there is one of this name; returns those that are left."""
        check(actor, Action.ACCOUNT)
        self._control.store.run_views.forget(actor.user, name)
        return self.saved_views(actor)

    def last_change(self) -> int:
        """The number of the last change of any run."""
        return self._control.store.last_event_id()

    def changes(self, actor: Actor, after: int, *, limit: int) -> tuple[int, list[RunSummary], bool]:
        """The number of the last event, the lines of runs with events after `after`, and whether there are
        more than `limit` such events: then some runs are left out.
        """
        check(actor, Action.READ)
        store = self._control.store
        events = store.feed(after_id=after, limit=limit)
        if not events:
            return after, [], False
        more = len(events) == limit
        found = store.run_views.lines({event.run_id for event in events}, actor.sees)
        return self.last_change() if more else events[-1].id, with_stuck(self._control, found), more
