"""The store of plays, as the contract suite asks it: with a run and its events, which no play reads."""

from __future__ import annotations

from tarmac.model.progress import Event
from tarmac.model.run import Run
from tarmac.simulator.play_store import PlayStore


class PlayedStore(PlayStore):
    """A `PlayStore` whose content a test can read."""

    def run(self, run_id: str) -> Run | None:
        return self._runs.get(run_id)

    def events(self, run_id: str, *, after_seq: int = 0) -> list[Event]:
        return [event for event in self._events if event.run_id == run_id and event.seq > after_seq]
