"""The methods of `tarmac.Client` about a run's history and its notifications. Inherited by `client`."""

from __future__ import annotations

from tarmac import api
from tarmac.client.calls import Calls, segment


class EventCalls(Calls):
    """Events and notifications of runs. Inherited by `Client`."""

    def events(self, reference: str) -> list[api.Event]:
        """The history of a run."""
        return self._get(f"/runs/{segment('run', reference)}/events")

    def notifications(self, reference: str) -> list[api.Notification]:
        """The messages about a run, sent or pending, oldest first."""
        return self._get_as(list[api.Notification], f"/runs/{segment('run', reference)}/notifications")
