"""Artifacts for the routes: list, find, read and remove versions; resolve the inputs of new runs.

The artifact store is the only record: the database holds nothing about artifacts.
"""

import hmac
import logging
import threading
from collections import defaultdict
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from itertools import islice
from pathlib import Path

from tarmac.artifacts.versions.catalog import Catalog, Rules, VersionSummary, collect, expired_versions
from tarmac.artifacts.versions.manifest import Manifest, Version, clashes, parse_id
from tarmac.artifacts.versions.store_server import Grant, StoreServer
from tarmac.control.permissions import Action, check, may_see
from tarmac.model.actor import Actor, Sight
from tarmac.model.errors import NotFound, Problem, Refused, TarmacError
from tarmac.model.lifecycle import AttemptState, RunState
from tarmac.model.ports import Clock, Store
from tarmac.model.run import Run
from tarmac.model.run_records import RunRecord, RunRecordKind
from tarmac.model.spec import Conventions
from tarmac.model.summary import RunWindow
from tarmac.node.attempt.protocol import ARTIFACT_KINDS
from tarmac.server.storage.reported_checkpoints import deletions, is_deleted
from tarmac.server.storage.site_artifacts import SiteArtifacts
from tarmac.server.storage.trial_checkpoints import CHECKPOINT, apply_policies

TIDY_EVERY_S = 600.0

MOST_LISTED = 2_000
"""The number of runs that a list of the newest versions looks at."""

log = logging.getLogger(__name__)


class ArtifactService:
    """Commands and queries about artifacts. From any thread."""

    def __init__(
        self,
        catalog: Catalog,
        store: Store,
        clock: Clock,
        rules: Rules,
        *,
        marker: Path,
        sites: SiteArtifacts,
    ) -> None:
        """`marker` is a file that names the artifact store once it exists; `sites` are stores at sites."""
        self._marker = marker
        self._sites = sites
        self._catalog = catalog
        self._store = store
        self._clock = clock
        self._rules = rules
        self._cleared: dict[str, int] = {}
        self.answer = StoreServer(lambda: catalog.blobs, self.find_grant).answer
        """Answers sidecars on nodes without access to the store."""

    # --- for attempts on nodes without access to the store

    def find_grant(self, attempt_id: str, token: str) -> Grant | None:
        """The permissions of a live run's attempt in the store; None for any other. Raises Unavailable."""
        run_id = attempt_id.rpartition(".")[0]
        attempts, run = self._store.attempts(run_id), self._store.run(run_id)
        if run is None or not attempts:
            return None
        last = max(attempts, key=lambda attempt: attempt.number)
        live = last.id == attempt_id and last.state is not AttemptState.ENDED
        if not live or not hmac.compare_digest(last.token.encode(), token.encode()):
            return None
        return Grant(run_id=run_id, number=last.number, inputs=run.spec.input_artifacts)

    # --- queries

    def versions(
        self, actor: Actor, run: Run | None, *, on_missing: Callable[[str], None] = lambda _: None
    ) -> list[VersionSummary]:
        """Every version of the artifacts of a run, or of all runs.

        `on_missing` receives the reason if some versions of a run are not on the server yet.
        """
        check(actor, Action.READ)
        if run is not None and (missing := self._sites.fetch(run)):
            on_missing(missing)
        found = self._catalog.summaries(run.id if run is not None else None)
        if run is not None or actor.sees is None:
            return found
        runs = self._store.load_runs(sorted({each.version.run_id for each in found}))
        return [each for each in found if (own := runs.get(each.version.run_id)) and may_see(actor, own)]

    def newest(self, actor: Actor, text: str, limit: int) -> list[VersionSummary]:
        """The newest versions, newest first: of a kind, or of runs with this text in their name or id."""
        check(actor, Action.READ)
        kinds = (text,) if text in ARTIFACT_KINDS else ARTIFACT_KINDS
        name = text.partition(".")[0] if len(kinds) > 1 else ""
        window = RunWindow(text=name, limit=MOST_LISTED)
        _, lines = self._store.run_views.window(window, actor.sees)
        found = (each for line in lines for each in reversed(self._catalog.summaries(line.id)))
        return list(islice((each for each in found if each.version.kind in kinds), limit))

    def names(self, run_ids: Sequence[str]) -> dict[str, str]:
        """The names of runs by id, as far as this server knows them."""
        return {run_id: run.name for run_id, run in self._store.load_runs(run_ids).items()}

    def find(self, actor: Actor | None, reference: str, *, kind: str = CHECKPOINT) -> Version:
        """The version of a user's reference: an id, or a run (by id or name) for its latest of a kind.

        Raises NotFound with the nearest, also for one that the actor may not see (None: the server).
        """
        exact, (user, sight) = (
            parse_id(reference),
            (actor.user, actor.sees) if actor is not None else (None, None),
        )
        if exact is not None and not self._is_seen(sight, exact.run_id):
            raise _unknown(reference)
        missing = self._fetch(exact)
        version = self._catalog.exact(reference)
        if version is not None:
            return version
        runs = self._store.find_runs(reference, user=user, sight=sight, limit=2)
        if missing or not runs or (len(runs) > 1 and runs[0].name != reference):
            live = [run.name for run in self._store.live_runs()]
            error = self._catalog.unknown(reference, others=live) if sight is None else _unknown(reference)
            raise NotFound(error.message, hint=missing or error.hint)
        missing = self._sites.fetch(runs[0])
        latest = self._catalog.latest(runs[0].id, kind)
        if latest is None:
            raise NotFound(
                f"{runs[0].name} ({runs[0].id}) has no {kind} artifact",
                hint=missing or f"tarmac artifacts ls {runs[0].id} lists what it has",
            )
        return latest

    def _is_seen(self, sight: Sight | None, run_id: str) -> bool:
        run = self._store.load_runs([run_id]).get(run_id) if sight is not None else None
        return sight is None or (run is not None and sight.covers(run.user, run.project))

    def _fetch(self, reference: Version | None) -> str:
        """Request a missing version from its site; returns the reason if it is still missing, or ""."""
        if reference is None or self._catalog.holds(reference):
            return ""
        run = self._store.load_runs([reference.run_id]).get(reference.run_id)
        return self._sites.fetch(run) if run is not None else ""

    def fetch_all(self, actor: Actor, cluster: str) -> list[str]:
        """Fetch all artifacts from the site of a cluster to be removed; reports those that remain there."""
        check(actor, Action.MANAGE)
        if not (missing := self._sites.fetch_all(cluster)):
            return []
        text = f"not all artifacts that {cluster} keeps at its site are here: {missing}. They stay there; "
        return [f"{text}a cluster with the same directory, added again, brings them"]

    def content(self, actor: Actor, reference: str, *, kind: str = CHECKPOINT) -> Manifest:
        """The content of a version; raises NotFound as `find` does."""
        check(actor, Action.READ)
        return self._catalog.manifest(self.find(actor, reference, kind=kind))

    def piece(self, actor: Actor, digest: str) -> bytes:
        """A piece of a file."""
        check(actor, Action.READ)
        return self._catalog.piece(digest)

    # --- commands

    def remove(self, actor: Actor, reference: str) -> Version:
        """Remove one version; raises Refused if it is in use."""
        version = self._catalog.exact(reference)
        if version is None:
            raise self._catalog.unknown(reference)
        run = self._store.load_runs([version.run_id]).get(version.run_id)
        owned = {"owner": run.user, "project": run.project} if run is not None else {}
        check(actor, Action.CONTROL, **owned, what="artifacts")
        for reader in self._store.live_runs():
            if version.id in reader.spec.input_artifacts:
                raise Refused(f"{version.id} is the input of {reader.name} ({reader.id}, {reader.state})")
        owner = run if run is not None and run.state is not RunState.ENDED else None
        if owner is not None and version == self._catalog.latest(version.run_id, version.kind, version.rank):
            raise Refused(
                f"{version.id} is what {owner.name} ({owner.state}) would resume from",
                hint="it can be removed once the run has ended",
            )
        self._catalog.remove([version])
        return version

    def clear_reported(self, actor: Actor, run: Run) -> None:
        """Remove the deleted files of checkpoints reported by an ended run's code."""
        check(actor, Action.CONTROL, owner=run.user, project=run.spec.project, what="artifacts")
        reports = {run.id: self._store.run_records.of(run.id, RunRecordKind.CHECKPOINT)}
        self._clear(reports, {run.id: run}, self._catalog.summaries(run.id), self._inputs())

    def resolve(self, actor: Actor | None, inputs: Sequence[str]) -> tuple[tuple[str, ...], list[Problem]]:
        """The inputs that a new run of the actor names, as exact versions; and the problems with them."""
        problems: list[Problem] = []
        found: list[Version] = []
        for text in inputs:
            try:
                found.append(self.find(actor, text.strip()))
            except (NotFound, Refused) as error:
                problems.append(Problem(message=f"input artifact: {error.message}", hint=error.hint))
        if not problems:
            manifests = [self._catalog.manifest(version) for version in dict.fromkeys(found)]
            for path, (one, other) in clashes(manifests).items():
                message = f"input artifacts {one} and {other} both hold {path!r}"
                problems.append(Problem(message=message, hint="one directory cannot hold both"))
        return tuple(dict.fromkeys(version.id for version in found)), problems

    def tidy(self) -> None:
        """Remove expired versions, those that their experiment's policy drops, and unused pieces."""
        summaries = self._catalog.summaries()
        runs = self._store.load_runs(sorted({item.version.run_id for item in summaries}))
        inputs = self._inputs()
        reports = {
            run.id: self._store.run_records.of(run.id, RunRecordKind.CHECKPOINT)
            for run in runs.values()
            if run.spec.conventions.system != Conventions().system
        }
        policies = apply_policies(self._store, summaries, runs, reports, inputs=inputs)
        for record in policies.deleted:
            self._store.run_records.put(record)
            reports[record.run_id] = [
                record if each.name == record.name else each for each in reports[record.run_id]
            ]
        self._clear(reports, runs, summaries, inputs)
        expired = expired_versions(
            summaries,
            rules=self._rules,
            now=self._clock.now(),
            ended_at={run_id: run.ended_at for run_id, run in runs.items()},
            inputs=inputs,
            spared=policies.kept,
        )
        surplus = {version for version in policies.surplus if version.id not in inputs}
        old = sorted(surplus.union(expired))
        self._catalog.remove(old)
        removed = collect(self._catalog.blobs)
        if old or removed:
            log.info("artifacts: removed %d expired versions and %d unused pieces", len(old), removed or 0)

    def _clear(
        self,
        reports: Mapping[str, Sequence[RunRecord]],
        runs: Mapping[str, Run],
        summaries: Sequence[VersionSummary],
        inputs: Collection[str],
    ) -> None:
        """Remove deleted files from the checkpoints of ended runs, except the inputs of live runs.

        Reads nothing if neither versions nor records have changed since the last call.
        """
        versions: dict[str, list[Version]] = defaultdict(list)
        for item in summaries:
            if item.version.kind == CHECKPOINT:
                versions[item.version.run_id].append(item.version)
        for run_id, records in reports.items():
            deleted, found = deletions(records), versions[run_id]
            state = hash((*found, *deleted.items()))
            used = runs[run_id].ended_at is None or any(version.id in inputs for version in found)
            if not deleted or used or self._cleared.get(run_id) == state:
                continue
            for version in found:
                with suppress(NotFound):  # it is damaged, or was removed at the same time
                    manifest = self._catalog.manifest(version)
                    left = [entry for entry in manifest.entries if not is_deleted(entry.path, deleted)]
                    if len(left) < len(manifest.entries):
                        self._catalog.reduce(manifest, left)
            self._cleared[run_id] = state

    def _inputs(self) -> set[str]:
        """The input versions of live runs."""
        return {text for run in self._store.live_runs() for text in run.spec.input_artifacts}

    def begin(self, ending: threading.Event) -> None:
        """Create or check the store; until this succeeds, attempts keep their artifacts on their nodes."""
        rest_s = 0.0
        while not ending.wait(rest_s):
            try:
                self._catalog.begin(self._marker)
            except (TarmacError, OSError) as error:
                log.warning("artifacts cannot be kept now: %s", error)
                rest_s = min(max(1.0, rest_s * 2), TIDY_EVERY_S)
            else:
                return


def _unknown(reference: str) -> NotFound:
    return NotFound(f"there is no artifact {reference!r}", hint="tarmac artifacts ls lists them")
