"""Converts the body of a request into a `control.Submission`: read, override, clone, inherit, check the code.

Called by `routes.submitting`, in its thread, and by the routes for dry runs and checks. It finds all errors
of a submission before the server stores any of it. Readers refuse most errors with their line; the remaining
ones in repositories must not be stored, shown or passed to git. `after_hook` passes a draft through the
site's submission hook, if the server has one.
"""

import asyncio
import dataclasses
import hashlib
import string
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from uuid import uuid4

from tarmac.api.submit_operations import ExtrasBody, FileBody, SubmissionBody
from tarmac.artifacts.code.store import missing_image, refuse_unfit, with_own_image
from tarmac.control.admission import Submission, refuse_search
from tarmac.control.service import ControlPlane
from tarmac.dialects.dialect import Dialect, Extras, Reading
from tarmac.dialects.native.sweeps import swept
from tarmac.dialects.overrides import override
from tarmac.dialects.site_names import NO_NAMES, use_local_names
from tarmac.model.actor import Actor
from tarmac.model.cluster import Cluster
from tarmac.model.codec import replace
from tarmac.model.errors import InvalidInput, Problem, Refused
from tarmac.model.home import INHERITED_VARIABLES
from tarmac.model.lifecycle import RunState
from tarmac.model.notification import Channel, Receiver
from tarmac.model.ports import ResolveReferences
from tarmac.model.run import Run
from tarmac.model.spec import Checkout, LocalDirectory, Repository, RunSpec
from tarmac.node.files import gitrules
from tarmac.node.files.gitrules import TRANSPORTS, GitRules
from tarmac.server.http.auth import Caller
from tarmac.server.service import ReadingRules, Service
from tarmac.server.storage.artifact_service import ArtifactService
from tarmac.server.storage.dataset_service import DatasetService
from tarmac.server.storage.secret_service import SecretService
from tarmac.server.submission_hook import SubmissionHook
from tarmac.server.submitting.containers import image_in_full, use_containers
from tarmac.systems.registry import changed, dialect_of, read

_STAND_IN = frozenset({"name", "slots", "code"})
"""Overrides that supply values missing in a text; other overrides do not affect its reading."""


Source = Callable[[RunSpec, Actor | None], RunSpec]

NO_SOURCES: Mapping[str, Source] = {}

_MOST_READINGS = 64
_END = 6
_ALPHANUMERIC = string.ascii_letters + string.digits


@dataclass(frozen=True, slots=True, kw_only=True)
class Draft:
    """A submission as requested, and the server's rules for it; `base` is a spec in place of a text.

    `requested` is its reading as changed by the site's hook (None: the server has no hook).
    """

    caller: Caller
    body: SubmissionBody
    base: RunSpec | None = None
    rules: ReadingRules = dataclasses.field(default_factory=ReadingRules)
    requested: Reading | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Prepared:
    """A submission ready for the control plane, the warnings of its reader, and its `missing` code."""

    submission: Submission
    warnings: tuple[str, ...]
    missing: str | None = None


def prepare(draft: Draft, plane: ControlPlane) -> Prepared:
    """Prepare a draft; raises InvalidInput with all its problems, NotFound for an unknown clone."""
    prepared = planned(draft, plane)
    spec = prepared.submission.spec
    if prepared.missing is not None and spec.rehearsal is None:
        raise InvalidInput([Problem(message=prepared.missing, file=draft.body.filename)])
    code = spec.code
    if isinstance(code, LocalDirectory):
        if code.digest is not None:
            plane.control.code.check_sent(code)
        elif not draft.caller.local:
            raise InvalidInput(
                f"code: {code.path} is a directory of your machine, and this server cannot read it",
                hint="tarmac run sends it first; a program does with /code/missing, /code/packs, /code/trees",
            )
    return prepared


def code_directory(draft: Draft, plane: ControlPlane) -> LocalDirectory | None:
    """The directory of a draft on the submitter's machine, unless the server has its code."""
    code = _spec(draft, plane).spec.code
    return code if isinstance(code, LocalDirectory) and code.digest is None else None


def planned(draft: Draft, plane: ControlPlane) -> Prepared:
    """A draft as prepared by `prepare`, regardless of its code: for requests that store nothing."""
    reading = _spec(draft, plane)
    spec = reading.spec
    check_repositories(spec, filename=draft.body.filename)
    if draft.caller.local:
        submitter = draft.body.submitter
        inherited = {name: submitter[name] for name in INHERITED_VARIABLES if name in submitter}
        spec = replace(spec, environment=replace(spec.environment, inherited=inherited))
    # A submission without a key gets one, so that `submit_together` may submit it again after a clash.
    key = draft.body.idempotency_key or uuid4().hex
    if spec.unique_name:
        spec = replace(spec, name=f"{spec.name}-{_random_end(f'{draft.caller.actor.user} {key}')}")
    missing = None
    if spec.site is not None and draft.caller.local and draft.body.source is not None:
        missing = missing_image(spec.site, directory=draft.body.directory)
    if (
        isinstance(spec.code, LocalDirectory)
        and spec.code.digest is None
        and draft.caller.local
        and missing is None
    ):
        refuse_unfit(spec.code, filename=draft.body.filename, usual_bytes=draft.rules.code_limit_bytes)
    submission = Submission(spec=spec, actor=draft.caller.actor, idempotency_key=key)
    return Prepared(
        submission=submission, warnings=(*reading.warnings, *([missing] if missing else [])), missing=missing
    )


def read_file(
    source: str, body: FileBody, dialects: Sequence[Dialect], *, overridden: frozenset[str] = frozenset()
) -> Reading:
    """The reading of a text; `overridden` are fields of it that the command line supplies."""
    extras = dataclasses.replace(_extras(body.extras), override_fields=overridden)
    return _read_once(
        source,
        filename=body.filename,
        directory=body.directory,
        dialect=body.dialect,
        extras=extras,
        dialects=dialects,
    )


_read_once = lru_cache(maxsize=_MOST_READINGS)(read)
"""Readers are pure, so the result for a repeatedly submitted text is cached."""


def _random_end(seed: str) -> str:
    """Six characters that look random but depend only on the submission."""
    number = int.from_bytes(hashlib.sha256(seed.encode()).digest()[:8])
    return "".join(_ALPHANUMERIC[number // 62**place % 62] for place in range(_END))


def requested(draft: Draft, plane: ControlPlane) -> Reading:
    """The reading of a draft with the changes of its command line, and names of this site."""
    reading = _reading(draft, plane)
    scale = dialect_of(reading.spec.dialect).scale
    spec = override(reading.spec, draft.body.overrides, scale=scale) if draft.body.overrides else reading.spec
    spec = swept(spec, tuple(draft.body.sweep.items())) if draft.body.sweep else spec
    notes: tuple[str, ...] = ()
    # The names in a cloned run are local already.
    foreign = draft.base is None and (draft.body.clone is None or draft.body.source is not None)
    if foreign and draft.rules.names != NO_NAMES:
        spec, notes = use_local_names(spec, draft.rules.names)
    return dataclasses.replace(reading, spec=spec, warnings=(*reading.warnings, *notes))


def _spec(draft: Draft, plane: ControlPlane) -> Reading:
    """The complete reading of a draft, with its code snapshot if it was sent."""
    reading = draft.requested or requested(draft, plane)
    spec = reading.spec
    if draft.body.code_digest is not None and isinstance(spec.code, LocalDirectory):
        spec = replace(spec, code=replace(spec.code, digest=draft.body.code_digest))
    spec, notes = use_containers(
        image_in_full(with_own_image(spec), draft.body.directory),
        draft.rules.containers,
        user=draft.caller.actor.user,
        images=draft.rules.images,
        alone=not plane.control.inventory.clusters,
    )
    return dataclasses.replace(reading, spec=spec, warnings=(*reading.warnings, *notes))


def _reading(draft: Draft, plane: ControlPlane) -> Reading:
    extras = _extras(draft.body.extras)
    if draft.base is not None:
        spec = replace(draft.base, start_paused=False, hook_changes=())
        return Reading(spec=changed(spec, extras.changes) if extras.changes else spec)
    if draft.body.clone is not None:
        run = plane.find(draft.caller.actor, draft.body.clone)
        if draft.body.source is not None:
            return _edited(draft, run)
        spec = replace(run.spec, start_paused=False, hook_changes=())
        if isinstance(spec.code, LocalDirectory) and (draft.body.resume or not draft.caller.local):
            # The path is on the submitter's machine: only its copy is available here.
            spec = replace(spec, code=replace(spec.code, digest=run.code_digest or spec.code.digest))
        if draft.body.resume:
            spec = _from_checkpoint(spec, run)
        if extras.changes:
            spec = changed(spec, extras.changes)
        return Reading(spec=replace(spec, name=spec.name[: -_END - 1]) if spec.unique_name else spec)
    if draft.body.resume:
        raise InvalidInput("resume goes with clone: it names the run whose checkpoint is begun from")
    if draft.body.source is None:
        raise InvalidInput("a submission needs the text of a run file, or a run to clone")
    return _read(draft, draft.body.source)


def _read(draft: Draft, source: str) -> Reading:
    overridden = _STAND_IN.intersection(draft.body.overrides)
    return read_file(source, draft.body, draft.rules.dialects, overridden=overridden)


def _edited(draft: Draft, run: Run) -> Reading:
    """The reading of another text for a run: with the code and the inherited variables of that run."""
    assert draft.body.source is not None
    reading = _read(draft, draft.body.source)
    spec, code = reading.spec, run.spec.code
    if isinstance(spec.code, LocalDirectory) and isinstance(code, LocalDirectory):
        spec = replace(spec, code=replace(code, digest=run.code_digest or code.digest))
    environment = replace(spec.environment, inherited=run.spec.environment.inherited)
    spec = replace(spec, environment=environment)
    return dataclasses.replace(reading, spec=_from_checkpoint(spec, run) if draft.body.resume else spec)


def _extras(body: ExtrasBody) -> Extras:
    """The files and parameters beside a run file."""
    return Extras(
        files=tuple(sorted(body.files.items())),
        entry_point=body.entry_point,
        parameters=tuple(body.parameters.items()),
        variables=tuple(body.variables.items()),
        changes=tuple(body.changes.items()),
    )


def _from_checkpoint(spec: RunSpec, run: Run) -> RunSpec:
    """The spec with the last checkpoint of an ended run in place of its own initial checkpoints."""
    if run.state is not RunState.ENDED:
        raise Refused(
            f"{run.name} ({run.id}) has not ended: it is {run.state}",
            hint=f"it goes on by itself: tarmac resume {run.id}"
            if run.state in (RunState.PAUSING, RunState.PAUSED)
            else f"pause or stop it first: tarmac pause {run.id}",
        )
    others = [text for text in spec.input_artifacts if ".checkpoint." not in text]
    return replace(spec, input_artifacts=(*others, run.id))


def resolve_references(
    artifacts: ArtifactService,
    datasets: DatasetService,
    secrets: SecretService,
    *,
    sends_mail: bool = False,
    sources: Mapping[str, Source] = NO_SOURCES,
    cluster_of: Callable[[str], Cluster | None] = lambda _name: None,
) -> ResolveReferences:
    """Checks all three, and pins input artifacts to current versions, so that the record names those in use.

    It also checks the receivers of messages: without `sends_mail`, mail is refused. `sources` adds the runs
    that files of a system name in their own way to the inputs. A run for a cluster (`cluster_of` its name) is
    refused if its user has none of the credentials there.
    """

    def resolve(spec: RunSpec, actor: Actor | None) -> RunSpec:
        if (with_source := sources.get(spec.conventions.system)) is not None:
            spec = with_source(spec, actor)
        cluster = cluster_of(spec.target.cluster or "") if spec.rehearsal is None else None
        if actor is not None:
            login = secrets.login_of(cluster, actor.user) if cluster is not None else None
            spec = replace(spec, login=login) if spec.login != login else spec
        spec, unknown = (spec, []) if actor is None else secrets.resolved(spec, actor)
        if not sends_mail:
            receivers = [each.receiver for each in spec.notify]
            unknown += [_no_mail(each) for each in receivers if each.channel is Channel.EMAIL]
        if not (spec.datasets or spec.input_artifacts or unknown):
            return spec
        problems = datasets.problems(spec.datasets) if spec.datasets else []
        pinned, wrong = artifacts.resolve(actor, spec.input_artifacts)
        problems += [*wrong, *unknown]
        if problems:
            raise InvalidInput(problems)
        return replace(spec, input_artifacts=pinned)

    return resolve


def _no_mail(receiver: Receiver) -> Problem:
    return Problem(
        message=f"notify: {receiver}: this server sends no mail",
        hint='it does with the setting [notifications] smtp = "mail.example.org:587"; a webhook needs none',
    )


_ANY = GitRules(transports=TRANSPORTS)
"""The settings restrict transports when the repository is fetched."""


def check_repositories(spec: RunSpec, *, filename: str) -> None:
    """Raises InvalidInput for ambiguous URLs, branches and commits, and for those with a secret."""
    problems = [
        Problem(message=f"{where}: {problem}", file=filename)
        for where, repository in _repositories(spec)
        for problem in _problems(repository)
    ]
    if problems:
        raise InvalidInput(problems)


def _repositories(spec: RunSpec) -> Iterator[tuple[str, Repository]]:
    if isinstance(spec.code, Repository):
        yield "code", spec.code
    for number, step in enumerate(spec.setup):
        if isinstance(step, Checkout):
            yield f"setup step {number + 1}", step.repository


def _problems(repository: Repository) -> Iterator[str]:
    checks = (
        (lambda url: gitrules.check_url(url, _ANY), repository.url),
        (gitrules.check_reference, repository.branch),
        (gitrules.check_commit, repository.commit),
    )
    for check, value in checks:
        try:
            if value is not None:
                check(value)
        except gitrules.Refused as refused:
            yield str(refused)


async def after_hook(service: Service, draft: Draft, *, dry_run: bool = False) -> Draft:
    """The draft of a run with the hook's changes; raises Refused if the hook rejects it, or fails.

    Raises IsExperiment for a search: its client then creates an experiment, and the hook is called once.
    """
    if (hook := service.hook) is None:
        return draft
    check = _any if dry_run else refuse_search
    return await asyncio.wrap_future(
        hook.begin(partial(_changed, draft, service.plane, hook, check, dry_run))
    )


def after_hook_here(service: Service, draft: Draft) -> Draft:
    """Like `after_hook`, for runs and experiments, and for handlers that run in a thread."""
    if (hook := service.hook) is None:
        return draft
    return hook.begin(partial(_changed, draft, service.plane, hook, _any, False)).result()


Check = Callable[[RunSpec], None]


def _any(_spec: RunSpec) -> None:
    """The check of submissions that may be experiments."""


def _changed(draft: Draft, plane: ControlPlane, hook: SubmissionHook, check: Check, dry_run: bool) -> Draft:
    try:
        reading = requested(draft, plane)
    except RecursionError:
        raise InvalidInput("the run file is nested too deeply") from None
    check(reading.spec)
    clone = draft.body.clone is not None or draft.base is not None
    spec = hook.changed(reading.spec, user=draft.caller.actor.user, clone=clone, dry_run=dry_run)
    warnings = (*reading.warnings, *spec.hook_changes)
    return dataclasses.replace(draft, requested=dataclasses.replace(reading, spec=spec, warnings=warnings))
