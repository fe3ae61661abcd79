"""`det experiment create`, `continue`, `pause`, `set` and the like: experiment commands.

Listed in `application`.
"""

import json
import os
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from tarmac.api import PreviewLine
from tarmac.api.submit_operations import SubmissionBody
from tarmac.control.admission import Submission
from tarmac.control.decisions.trials import merged
from tarmac.control.experiments import ExperimentService
from tarmac.control.service import ControlPlane
from tarmac.model.actor import Action, Actor
from tarmac.model.cluster import Policy
from tarmac.model.codec import replace
from tarmac.model.errors import InvalidInput, Refused
from tarmac.model.experiment import Experiment
from tarmac.model.home import INHERITED_VARIABLES
from tarmac.model.lifecycle import RunEvent, sources
from tarmac.model.run_records import NumberKind
from tarmac.model.spec import LocalDirectory, RunSpec
from tarmac.server.http.auth import Caller
from tarmac.server.submitting.submissions import Draft, Prepared, after_hook_here, planned, prepare
from tarmac.systems.determined.gateway import model_definition
from tarmac.systems.determined.gateway.calls import Call, Route, inner
from tarmac.systems.determined.gateway.changing import NOTES, Changes, changed, changes_of
from tarmac.systems.determined.gateway.records import config_of, labels_shown
from tarmac.systems.determined.gateway.routes import projects
from tarmac.systems.determined.gateway.routes.cluster import default_pool
from tarmac.systems.determined.gateway.routes.jobs import place_changes
from tarmac.systems.determined.gateway.routes.queries import experiment_record
from tarmac.systems.determined.overrides import values_of
from tarmac.systems.determined.reader import NAME, NO_PROJECT
from tarmac.systems.determined.search import search_of

_CHANGED = ("name", "description", "labels")
_CHANGED_RESOURCES = ("priority", "weight", "resource_pool", "max_slots")
"""The parts of a configuration that `det experiment set` changes after its creation."""


def continued(call: Call, experiment: Experiment, override: Mapping[str, Any]) -> RunSpec:
    """The spec of an experiment with parts of its configuration changed: its text is read again.

    Raises InvalidInput with all problems of the changed configuration.
    """
    spec = experiment.spec
    if spec.conventions.system != NAME:
        raise InvalidInput(
            "an experiment of a run file is continued with the configuration that it has",
            hint="tarmac experiment create begins another with a changed one",
        )
    before = merged(values_of(spec.source, "config"), _since(config_of(spec)))
    searcher, others = before.get("searcher"), override.get("searcher")
    if isinstance(searcher, dict) and isinstance(others, dict) and "max_length" in others:
        searcher.pop("max_length", None)  # `{epochs: 2}` replaces `{batches: 10}`
    draft = draft_of(call, json.dumps(merged(before, override)), experiment.code_digest)
    after = submission_of(call, after_hook_here(call.gateway.service, draft)).spec
    notes = spec.conventions.facts.get(NOTES)
    after = in_project(changed(after, Changes(config={}, notes=notes)), spec.project)
    return replace(after, code=spec.code, start_paused=False)


def _since(config: Mapping[str, Any]) -> dict[str, Any]:
    """The changes by users since a configuration was written, as far as they concern its fields."""
    resources = config.get("resources") or {}
    found = {name: config[name] for name in _CHANGED if config.get(name) is not None}
    place = {name: resources[name] for name in _CHANGED_RESOURCES if resources.get(name) is not None}
    return {**found, "resources": place}


def _create(call: Call) -> Any:
    if call.field("validateOnly", False):
        checked, _ = wish_of(call, keeps=False)
        call.plane.experiments.preview(checked)
        return {"experiment": _draft_record(checked.spec.name), "config": {}, "warnings": []}
    submission, parent = wish_of(call, keeps=True)
    created = call.plane.experiments.create(submission, parent=parent)
    record = experiment_record(call, created)
    return {"experiment": record, "config": record["config"], "warnings": []}


def _draft_record(name: str) -> dict[str, Any]:
    """The record of an experiment that is not stored."""
    empty: dict[str, Any] = dict.fromkeys(("startTime", "jobId", "searcherType", "username"), "")
    numbers = dict.fromkeys(("id", "numTrials", "projectId", "projectOwnerId"), 0)
    rest = {"archived": False, "config": {}, "originalConfig": "", "state": "STATE_PAUSED", "name": name}
    return empty | numbers | rest


def _continue(call: Call) -> Any:
    """Continue an ended experiment; with a changed configuration only a search with a single trial.

    A trial keeps its number, although it continues as another run.
    """
    experiment = call.experiment(call.whole_field("id"))
    text = call.typed("overrideConfig", str, "the text of a configuration")
    values = values_of(text, "overrideConfig") if text.strip() != "null" else {}
    override = {name: value for name, value in values.items() if value is not None}
    after = continued(call, experiment, override) if override else None
    change = (lambda _spec: after) if after is not None else None
    plane, numbers = call.plane, call.gateway.numbers
    with plane.control.lock:  # the new runs get numbers before any request for these
        before = {each.number: each.run_id for each in call.gateway.experiments.trials(experiment.id)}
        going = plane.experiments.go_on(call.actor, experiment.id, change=change)
        for trial in call.gateway.experiments.trials(experiment.id):
            if before.get(trial.number, trial.run_id) != trial.run_id:
                numbers.pass_on(NumberKind.TRIAL, before[trial.number], trial.run_id)
    return {"experiment": experiment_record(call, going)}


def _command(command: Callable[[ExperimentService, Actor, str], Experiment]) -> Callable[[Call], None]:
    """A route that applies a command to an experiment."""

    def apply(call: Call) -> None:
        command(call.plane.experiments, call.actor, call.experiment().id)

    return apply


def _change(call: Call) -> Any:
    """Change the name, the limits and the policy of an experiment, and the queue positions of its trials."""
    experiment, plane = call.experiment(), call.plane
    changes = changes_of(call.body if isinstance(call.body, Mapping) else {})
    trials = plane.experiments.trials(call.actor, experiment)
    movable = sources(RunEvent.REORDERED)
    run_ids = [each.run.id for each in trials if each.run is not None and each.run.state in movable]
    place = changes.place
    if all(pool.policy is not Policy.FAIR_SHARE for pool in plane.pools(call.actor)):
        place.pop("weight", None)  # it is stored, but has no effect yet
    if moves := place_changes(run_ids, place):
        plane.reorder(call.actor, moves, dict.fromkeys(run_ids, f"job {experiment.id}"))
    after = plane.experiments.change_spec(call.actor, experiment.id, partial(changed, changes=changes))
    return {"experiment": experiment_record(call, after)}


def _label(call: Call, *, adds: bool) -> Any:
    """Add or remove one label of an experiment."""
    experiment, label = call.experiment(), call.path("label")
    others = [each for each in labels_shown(experiment.spec) if each != label]
    changes = changes_of({"labels": [*others, label] if adds else others})
    apply = partial(changed, changes=changes)
    after = call.plane.experiments.change_spec(call.actor, experiment.id, apply)
    return {"labels": labels_shown(after.spec)}


def _move(call: Call) -> None:
    """Move an experiment to another project, which tarmac does not: the trials keep theirs."""
    experiment = call.experiment()
    if projects.named(call, call.whole_field("destinationProjectId")) not in (None, experiment.project):
        raise Refused(f"an experiment stays in its project, {projects.shown(experiment.project)}")


def _remove(call: Call) -> None:
    _, trials = call.plane.experiments.remove(call.actor, call.experiment().id)
    for trial in trials:
        call.gateway.service.remover.remove_if_there(call.actor, trial.run_id)


_BASE = "/api/v1/experiments"
_ONE = f"{_BASE}/{{experiment}}"


def wish_of(call: Call, *, keeps: bool) -> tuple[Submission, str | None]:
    """The experiment that a request describes, and the id of the one on which it is based.

    Without `keeps` its files are not stored.

    Raises InvalidInput with all problems of its configuration.
    """
    if call.field("template"):
        raise InvalidInput("tarmac has no templates", hint="write the configuration whole")
    project = projects.named(call, call.whole_field("projectId"))
    number = call.whole_field("parentId")
    parent = call.experiment(number) if number else None
    files = call.typed("modelDefinition", list, "a list of files")
    digest = parent.code_digest if parent is not None and not files else None
    if digest is None and keeps:
        digest = model_definition.take_in(files, call.gateway.service.code)
    config = call.typed("config", str, "the text of an experiment configuration")
    draft = draft_of(call, config, digest)
    made = prepare if digest is not None else planned
    submission = submission_of(call, after_hook_here(call.gateway.service, draft) if keeps else draft, made)
    if project is not None:
        submission = replace(submission, spec=in_project(submission.spec, project))
    if not call.field("activate", True):
        submission = replace(submission, spec=replace(submission.spec, start_paused=True))
    return submission, parent.id if parent is not None else None


def in_project(spec: RunSpec, project: str) -> RunSpec:
    """The spec and its configuration in another project than the configuration names."""
    facts = spec.conventions.facts
    config = dict(facts["config"])
    config |= {"workspace": config.get("workspace") or NO_PROJECT, "project": projects.shown(project)}
    conventions = replace(spec.conventions, facts={**facts, "config": config})
    return replace(spec, project=project, conventions=conventions)


def submission_of(
    call: Call, draft: Draft, made: Callable[[Draft, ControlPlane], Prepared] = planned
) -> Submission:
    """The submission of a draft, with a search and a pool."""
    submission = made(draft, call.plane).submission
    return replace(submission, spec=_completed(call, submission.spec))


def draft_of(call: Call, config: str, digest: str | None) -> Draft:
    """The draft of a configuration; the server has its code, if any, already."""
    return Draft(
        caller=Caller(actor=call.actor, local=digest is not None),
        body=SubmissionBody(
            source=config,
            filename="config.yaml",
            directory=model_definition.CONTEXT,
            dialect=NAME,
            code_digest=digest,
            submitter={name: os.environ[name] for name in INHERITED_VARIABLES if name in os.environ},
        ),
        rules=call.gateway.service.reading,
    )


def _completed(call: Call, spec: RunSpec) -> RunSpec:
    """A spec with a search (at least of one trial) and a pool: every experiment of Determined has both."""
    if isinstance(spec.code, LocalDirectory) and spec.code.digest is None:
        spec = replace(spec, code=None)
    if spec.search is None:
        spec = replace(spec, search=search_of(spec.conventions.facts["config"]))
    if spec.target.pool is None and (pool := default_pool(call)) is not None:
        return changed(spec, Changes(config={"resources": {"resource_pool": pool}}))
    return spec


def _preview(call: Call) -> Any:
    """The preview of a search, in the form of 0.38 and in that of earlier releases."""
    config = call.field("config", {})
    values = config if isinstance(config, dict) else {}
    unit, trials, simulated = _unit(values.get("searcher")), [], []
    for line in _previewed(call, config):
        limit = {"name": unit, "value": line.length, "maxLength": line.length is None}
        trials.append({"count": line.trials, "unit": limit})
        operation = {"type": "RUNNABLE_OPERATION_TYPE_TRAIN", "length": str(line.length or 0)}
        simulated.append({"occurrences": line.trials, "operations": [operation]})
    return {
        "summary": {"config": values, "trials": trials},
        "simulation": {"config": values, "seed": 0, "trials": simulated},
    }


def _unit(searcher: Any) -> str:
    """The unit of a search's lengths."""
    length = inner(searcher, "max_length")
    if isinstance(length, Mapping) and length:
        return str(next(iter(length)))
    return str(inner(searcher, "time_metric") or "batches")


def _old_preview(call: Call) -> Any:
    """The preview for 0.23, which sends only the configuration."""
    return {"results": {str(line.length or ""): line.trials for line in _previewed(call, call.body)}}


def _previewed(call: Call, config: Any) -> Sequence[PreviewLine]:
    if isinstance(config, Mapping):
        config = {"entrypoint": "true", **config}  # the entrypoint does not matter
    text = config if isinstance(config, str) else json.dumps(config)
    return call.plane.experiments.preview(submission_of(call, draft_of(call, text, None)))


ROUTES = (
    Route("POST", _BASE, _create, action=Action.SUBMIT),
    Route("POST", f"{_BASE}/continue", _continue),
    Route("PATCH", _ONE, _change),
    Route("DELETE", _ONE, _remove),
    Route("PUT", f"{_ONE}/labels/{{label:path}}", partial(_label, adds=True)),
    Route("DELETE", f"{_ONE}/labels/{{label:path}}", partial(_label, adds=False)),
    Route("POST", f"{_ONE}/pause", _command(ExperimentService.pause)),
    Route("POST", f"{_ONE}/activate", _command(ExperimentService.activate)),
    Route("POST", f"{_ONE}/cancel", _command(ExperimentService.stop)),
    Route("POST", f"{_ONE}/kill", _command(partial(ExperimentService.stop, at_once=True))),
    Route("POST", f"{_ONE}/move", _move),
    Route("POST", f"{_ONE}/archive", _command(partial(ExperimentService.set_archived, archived=True))),
    Route("POST", f"{_ONE}/unarchive", _command(partial(ExperimentService.set_archived, archived=False))),
    Route("POST", "/api/v1/preview-hp-search", _preview, action=Action.SUBMIT),
    Route("POST", "/searcher/preview", _old_preview, action=Action.SUBMIT),
)
