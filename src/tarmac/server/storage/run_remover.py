"""Removes ended runs as a whole: record, logs, working directories, artifacts. By command, and by age.

The record is removed last: the next call removes files that could not be removed before because a site was
unreachable.
"""

import logging
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass

from tarmac.artifacts.versions.catalog import Catalog
from tarmac.control.lookup import MOST_LOADED, means_all
from tarmac.control.permissions import Action, check
from tarmac.control.service import ControlPlane
from tarmac.model.abilities import KeepsFiles
from tarmac.model.actor import Actor
from tarmac.model.codec import replace
from tarmac.model.errors import NotFound, Refused, TarmacError, Unavailable
from tarmac.model.lifecycle import RunState
from tarmac.model.ports import Clock, Store
from tarmac.model.run import Run
from tarmac.model.summary import RunQuery
from tarmac.server.storage.site_artifacts import SiteArtifacts

PAGE = 500

_DAY_S = 86_400.0

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class RunRemover:
    """Removes ended runs. `keep_days`: the retention of a run after its end (None: unlimited).

    `engines` are those that can remove files, by cluster; `sites` store artifacts of runs.
    """

    plane: ControlPlane
    store: Store
    catalog: Catalog
    clock: Clock
    engines: Callable[[], Mapping[str, KeepsFiles]]
    keep_days: float | None
    sites: SiteArtifacts

    def remove(self, actor: Actor, reference: str) -> Run:
        """Remove a run, and return its record.

        Raises Refused if it has not ended or a live run needs its artifacts, Forbidden for another user's,
        and Unavailable if some of its files cannot be removed now.
        """
        run = self.plane.find_here(actor, reference)
        check(actor, Action.CONTROL, owner=run.user, project=run.spec.project)
        if means_all(run, reference):
            self._remove_array(run)
            return run
        if run.state is not RunState.ENDED:
            raise Refused(
                f"{run.spec.name} ({run.id}) is {run.state}, and only a run that has ended can be removed",
                hint=f"tarmac stop --wait {run.id}",
            )
        self._remove(run, self._readers())
        return run

    def remove_if_there(self, actor: Actor, run_id: str) -> None:
        """Remove a run by its id; a missing run is no error."""
        with suppress(NotFound):
            self.remove(actor, run_id)

    def _remove_array(self, run: Run) -> None:
        """Remove every member of the run's array; raises Refused if one of them has not ended."""
        members = self.store.runs(RunQuery(array_id=run.array_id, limit=MOST_LOADED))
        if live := sum(member.state is not RunState.ENDED for member in members):
            raise Refused(
                f"{live} of {len(members)} members of {run.name} ({run.array_id}) have not ended",
                hint=f"tarmac stop --wait {run.array_id}",
            )
        others = self._readers()
        for member in self.store.load_runs([each.id for each in members]).values():
            self._remove(member, others)

    def tidy(self) -> None:
        """Remove runs whose retention has expired."""
        if self.keep_days is None:
            return
        query = RunQuery(
            states=frozenset({RunState.ENDED}),
            ended_before=self.clock.now() - self.keep_days * _DAY_S,
            limit=PAGE,
        )
        live = self._readers()
        removed = 0
        while page := self.store.runs(query):
            removed += self._remove_all(self.store.load_runs([item.id for item in page]).values(), live)
            query = replace(query, before_id=page[-1].id)
        if removed:
            log.info("removed %d runs that ended more than %g days ago", removed, self.keep_days)

    def _readers(self) -> list[Run]:
        """The live runs that need artifacts of others."""
        return [run for run in self.store.live_runs() if run.spec.input_artifacts]

    def _remove_all(self, runs: Iterable[Run], live: Iterable[Run]) -> int:
        """Remove these runs of this server as far as possible; returns their number."""
        removed = 0
        for run in runs:
            if run.server != self.plane.control.server:
                continue
            try:
                self._remove(run, live)
                removed += 1
            except Refused as refusal:
                log.debug("%s", refusal)
            except TarmacError as error:
                log.warning("old run %s could not be removed: %s", run.id, error)
        return removed

    def _remove(self, run: Run, live: Iterable[Run]) -> None:
        versions = [item.version for item in self.catalog.summaries(run.id)]
        artifacts = {version.id for version in versions}
        for reader in live:
            if needed := sorted(artifacts.intersection(reader.spec.input_artifacts)):
                raise Refused(
                    f"{run.spec.name} ({run.id}) is kept: {needed[0]} is the input of {reader.spec.name} "
                    f"({reader.id}, {reader.state})",
                    hint="it can be removed once that run has ended",
                )
        self._remove_files(run)
        self.sites.remove(run)
        self.catalog.remove(versions)
        self.store.remove_runs([run.id])

    def _remove_files(self, run: Run) -> None:
        """Remove the files of a run's attempts, on every machine."""
        engines = self.engines()
        clusters = {attempt.allocation.cluster for attempt in self.store.attempts(run.id)}
        for key in sorted({cluster if cluster in engines else "" for cluster in clusters} & engines.keys()):
            try:
                engines[key].remove(run.id)
            except OSError as error:
                where = f"on cluster {key}" if key else "here"
                path = error.filename or "a file"
                raise Unavailable(
                    f"files of {run.spec.name} ({run.id}) cannot be removed {where}: {path}: {error.strerror}"
                ) from error
