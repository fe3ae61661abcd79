"""Datasets for the routes: add, fetch once, list and remove them; check those of new runs.

A thread fetches datasets with a URL, one at a time; after a crash it repeats an interrupted fetch.
"""

import logging
import re
import shutil
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from threading import Event, Thread

from tarmac.artifacts.datasets import check_url, fetch, is_url, local_path, shown
from tarmac.control.permissions import Action, check
from tarmac.launch.compose import dataset_variable
from tarmac.model.actor import Actor
from tarmac.model.cluster import LOCAL_CLUSTER
from tarmac.model.codec import replace
from tarmac.model.errors import InvalidInput, NotFound, Problem, Refused, TarmacError, suggestion
from tarmac.model.ports import Clock, Store
from tarmac.model.run_records import Dataset, DatasetState

NOTE_EVERY_S = 1.0
"""The interval at which the progress of a fetch is stored."""

_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")
_UNFINISHED = (DatasetState.CREATED, DatasetState.CACHING)

log = logging.getLogger(__name__)


@dataclass(slots=True)
class DatasetService:
    """Commands and queries about datasets. From any thread."""

    store: Store
    directory: Path
    clock: Clock
    server: str = LOCAL_CLUSTER
    private_addresses: bool = True
    _wakeup: Event = field(default_factory=Event, init=False)
    _ending: bool = field(default=False, init=False)

    def start(self) -> None:
        """Start to fetch the datasets that are not available yet."""
        Thread(target=self._fetch_all, name="tarmac-datasets", daemon=True).start()

    def stop(self) -> None:
        """Abort the current fetch; the next server starts it again."""
        self._ending = True
        self._wakeup.set()

    # --- queries

    def all(self, actor: Actor) -> list[Dataset]:
        """Every dataset of this server, by id; other servers have their own."""
        check(actor, Action.READ)
        return self._all()

    def find(self, dataset_id: str) -> Dataset:
        """One dataset; raises NotFound with the nearest."""
        known = {dataset.id: dataset for dataset in self._all()}
        if dataset_id not in known:
            raise NotFound(f"there is no dataset {dataset_id!r}", hint=_nearest(dataset_id, known))
        return known[dataset_id]

    def problems(self, ids: Iterable[str]) -> list[Problem]:
        """The problems with the datasets of a new run."""
        known = {dataset.id: dataset for dataset in self._all()}
        found: list[Problem] = []
        variables: dict[str, str] = {}
        for dataset_id in dict.fromkeys(ids):
            dataset = known.get(dataset_id)
            if dataset is None:
                hint = _nearest(dataset_id, known)
                found.append(Problem(message=f"there is no dataset {dataset_id!r}", hint=hint))
            elif dataset.state is not DatasetState.AVAILABLE:
                state = "is still being fetched"
                if dataset.state is DatasetState.FAILED:
                    state = f"could not be fetched: {dataset.message}"
                hint = "tarmac datasets ls shows when it is"
                found.append(Problem(message=f"dataset {dataset_id} {state}", hint=hint))
            elif (other := variables.setdefault(dataset_variable(dataset_id), dataset_id)) != dataset_id:
                message = f"datasets {other} and {dataset_id} would share {dataset_variable(dataset_id)}"
                found.append(Problem(message=message))
        return found

    # --- commands

    def add(self, actor: Actor, dataset_id: str, source: str) -> Dataset:
        """Add a dataset. A repeated addition has no effect, except that it retries a failed fetch."""
        check(actor, Action.SUBMIT)
        if not _ID.fullmatch(dataset_id):
            raise InvalidInput(f"{dataset_id!r} cannot be the id of a dataset", hint="letters, digits, . _ -")
        known = {dataset.id: dataset for dataset in self.store.datasets()}.get(dataset_id)
        if known is not None and known.server != self.server:
            raise Refused(
                f"the server of cluster {known.server} has a dataset {dataset_id}", hint="another id"
            )
        if known is not None and known.source != source:
            raise Refused(
                f"there is a dataset {dataset_id} already, from {shown(known.source, known.source)}",
                hint=f"tarmac datasets rm {dataset_id} forgets it",
            )
        if known is not None and known.state is not DatasetState.FAILED:
            return known
        dataset = Dataset(
            id=dataset_id, source=source, user=actor.user, created_at=self.clock.now(), server=self.server
        )
        if not is_url(source):
            path = local_path(source)
            if not path.is_absolute() or not path.exists():
                raise InvalidInput(f"{source} does not exist on the machine of the server")
            dataset = replace(dataset, state=DatasetState.AVAILABLE, path=str(path.resolve()))
        else:
            check_url(source)
        self.store.put_dataset(dataset)
        self._wakeup.set()
        return dataset

    def remove(self, actor: Actor, dataset_id: str) -> Dataset:
        """Remove a dataset and its fetched files; raises Refused while a run needs it."""
        dataset = self.find(dataset_id)
        check(actor, Action.CONTROL, owner=dataset.user, what="datasets")
        for run in self.store.live_runs():
            if dataset_id in run.spec.datasets:
                raise Refused(f"{run.name} ({run.id}, {run.state}) reads {dataset_id}")
        self.store.remove_dataset(dataset_id)
        shutil.rmtree(self._place(dataset_id), ignore_errors=True)
        return dataset

    def _all(self) -> list[Dataset]:
        return [dataset for dataset in self.store.datasets() if dataset.server == self.server]

    # --- fetching

    def _fetch_all(self) -> None:
        while not self._ending:
            self._wakeup.clear()
            waiting = [dataset for dataset in self._all() if dataset.state in _UNFINISHED]
            for dataset in waiting:
                self._fetch(dataset)
            if not waiting:
                self._wakeup.wait()

    def _fetch(self, dataset: Dataset) -> None:
        noted_at = self.clock.now()
        current = replace(dataset, state=DatasetState.CACHING)
        self._put(current)

        def progress(done: int, total: int | None) -> None:
            nonlocal current, noted_at
            if self._ending:
                raise InterruptedError("the server ends")
            now = self.clock.now()
            if now - noted_at >= NOTE_EVERY_S:
                current, noted_at = replace(current, done_bytes=done, total_bytes=total), now
                self._put(current)
            else:
                current = replace(current, done_bytes=done, total_bytes=total)

        place = self._place(dataset.id)
        try:
            fetch(dataset.source, place, progress, private_addresses=self.private_addresses)
        except (TarmacError, OSError) as error:
            if self._ending:
                return
            message = shown(str(error), dataset.source)
            log.warning("dataset %s: %s", dataset.id, message)
            self._put(replace(current, state=DatasetState.FAILED, message=message))
        else:
            self._put(replace(current, state=DatasetState.AVAILABLE, path=str(place)))

    def _put(self, dataset: Dataset) -> None:
        """Store a dataset's record, unless it was removed in the meantime."""
        if any(known.id == dataset.id for known in self._all()):
            self.store.put_dataset(dataset)
        elif dataset.state is DatasetState.AVAILABLE:
            shutil.rmtree(self._place(dataset.id), ignore_errors=True)

    def _place(self, dataset_id: str) -> Path:
        return self.directory / dataset_id


def _nearest(dataset_id: str, known: Iterable[str]) -> str:
    names = list(known)
    otherwise = f"datasets: {', '.join(names)}" if names else "tarmac datasets add ID PATH adds one"
    return suggestion(dataset_id, names, otherwise)
