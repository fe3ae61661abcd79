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
from tarmac.model.actor import Actor
from tarmac.model.cluster import Policy
from tarmac.model.codec import replace
from tarmac.model.errors import InvalidInput
from tarmac.model.experiment import Experiment
from tarmac.model.home import INHERITED_VARIABLES
from tarmac.model.lifecycle import RunEvent, sources
from tarmac.model.run_records import NumberKind
from tarmac.model.spec import LocalDirectory, RunSpec
from tarmac.server.http.auth import Caller
from tarmac.server.submitting.submissions import Draft, planned, prepare
from tarmac.systems.determined.gateway import model_definition
from tarmac.systems.determined.gateway.calls import Call, delete, patch, post, put
from tarmac.systems.determined.gateway.changing import NOTES, Changes, changed, changes_of
from tarmac.systems.determined.gateway.gateway import check_project, experiment_of
from tarmac.systems.determined.gateway.model_definition import CONTEXT
from tarmac.systems.determined.gateway.records import config_of, labels_shown
from tarmac.systems.determined.gateway.routes.cluster import default_pool
from tarmac.systems.determined.gateway.routes.jobs import place_changes
from tarmac.systems.determined.gateway.routes.queries import record_of
from tarmac.systems.determined.overrides import values_of
from tarmac.systems.determined.reader import NAME
from tarmac.systems.determined.search import search_of

_CHANGED = ("name", "description", "labels")
_CHANGED_RESOURCES = ("priority", "weight", "resource_pool", "max_slots")
"""The parts of a configuration that `det experiment set` changes after its creation."""


def override_of(text: Any) -> dict[str, Any]:
    """The overrides of a configuration in a request; raises InvalidInput."""
    if not isinstance(text, str):
        raise InvalidInput("overrideConfig: the text of a configuration is expected")
    found = values_of(text, "overrideConfig") if text.strip() != "null" else {}
    return {name: value for name, value in found.items() if value is not None}


def continued(call: Call, experiment: Experiment, spec: RunSpec, override: Mapping[str, Any]) -> RunSpec:
    """The spec of an experiment with parts of its configuration changed: its text is read again.

    Raises InvalidInput with all problems of the changed configuration.
    """
    if spec.conventions.system != NAME:
        raise InvalidInput(
            "an experiment of a run file is continued with the configuration that it has",
            hint="tarmac experiment create begins another with a changed one",
        )
    before = merged(values_of(spec.source, "config"), _since(config_of(spec)))
    searcher, others = before.get("searcher"), override.get("searcher")
    if isinstance(searcher, dict) and isinstance(others, dict) and "max_length" in others:
        searcher.pop("max_length", None)  # `{epochs: 2}` replaces `{batches: 10}`
    after = submission_of(call, json.dumps(merged(before, override)), experiment.code_digest).spec
    notes = spec.conventions.facts.get(NOTES)
    return replace(changed(after, Changes(config={}, notes=notes)), code=spec.code, start_paused=False)


def _since(config: Mapping[str, Any]) -> dict[str, Any]:
    """The changes by users since a configuration was written, as far as they concern its fields."""
    resources = config.get("resources") or {}
    found = {name: config[name] for name in _CHANGED if config.get(name) is not None}
    place = {name: resources[name] for name in _CHANGED_RESOURCES if resources.get(name) is not None}
    return {**found, "resources": place}


Command = Callable[[Actor, str], Experiment]


# --- creating


def _create(call: Call) -> Any:
    if call.field("validateOnly", False):
        checked, _ = wish_of(call, keeps=False)
        call.gateway.service.plane.experiments.preview(checked)
        return {"experiment": _draft_record(checked.spec.name), "config": {}, "warnings": []}
    submission, parent = wish_of(call, keeps=True)
    created = call.gateway.service.plane.create_experiment(submission, parent=parent)
    record = record_of(call, created)
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
    experiment = experiment_of(call.gateway, call.whole_field("id"))
    override = override_of(call.field("overrideConfig", ""))
    change = (lambda spec: continued(call, experiment, spec, override)) if override else None
    plane, numbers = call.gateway.service.plane, call.gateway.numbers
    with plane.control.lock:  # the new runs get numbers before any request for these
        before = {each.number: each.run_id for each in call.gateway.experiments.trials(experiment.id)}
        after = plane.experiments.go_on(call.actor, experiment.id, change=change)
        for trial in call.gateway.experiments.trials(experiment.id):
            if before.get(trial.number, trial.run_id) != trial.run_id:
                numbers.pass_on(NumberKind.TRIAL, before[trial.number], trial.run_id)
    return {"experiment": record_of(call, after)}


# --- commands


def _command(choose: Callable[[Call], Command]) -> Callable[[Call], Any]:
    """A route that applies a command to an experiment."""

    def command(call: Call) -> Any:
        experiment = experiment_of(call.gateway, call.number("experiment"))
        choose(call)(call.actor, experiment.id)
        return {}

    return command


def _stop_at_once(call: Call) -> Command:
    return partial(call.gateway.service.plane.experiments.stop, at_once=True)


def _archive(archived: bool) -> Callable[[Call], Command]:
    def choose(call: Call) -> Command:
        experiments = call.gateway.service.plane.experiments
        return lambda actor, reference: experiments.set_archived(actor, reference, archived)

    return choose


def _change(call: Call) -> Any:
    """Change the name, the limits and the policy of an experiment, and the queue positions of its trials."""
    experiment = experiment_of(call.gateway, call.number("experiment"))
    changes = changes_of(call.body if isinstance(call.body, Mapping) else {})
    plane = call.gateway.service.plane
    trials = plane.experiments.trials(call.actor, experiment)
    movable = sources(RunEvent.REORDERED)
    run_ids = [each.run.id for each in trials if each.run is not None and each.run.state in movable]
    if moves := place_changes(run_ids, _effective(call, changes)):
        plane.reorder(call.actor, moves, dict.fromkeys(run_ids, f"job {experiment.id}"))
    after = plane.experiments.change_spec(call.actor, experiment.id, partial(changed, changes=changes))
    return {"experiment": record_of(call, after)}


def _label(choose: Callable[[list[str], str], list[str]]) -> Callable[[Call], Any]:
    """A route that adds or removes one label of an experiment."""

    def change(call: Call) -> Any:
        experiment = experiment_of(call.gateway, call.number("experiment"))
        changes = changes_of({"labels": choose(labels_shown(experiment.spec), call.path("label"))})
        experiments = call.gateway.service.plane.experiments
        after = experiments.change_spec(call.actor, experiment.id, partial(changed, changes=changes))
        return {"labels": labels_shown(after.spec)}

    return change


def _with(labels: list[str], label: str) -> list[str]:
    return [each for each in labels if each != label] + [label]


def _without(labels: list[str], label: str) -> list[str]:
    return [each for each in labels if each != label]


def _effective(call: Call, changes: Changes) -> Changes:
    """The changes; without fair sharing they lack the weight, which is stored but has no effect yet."""
    policies = {pool.policy for pool in call.gateway.service.plane.pools(call.actor)}
    return changes if Policy.FAIR_SHARE in policies else changes.without("weight")


def _move(call: Call) -> Any:
    """Move an experiment to another project; there is none."""
    experiment_of(call.gateway, call.number("experiment"))
    check_project(call.whole_field("destinationProjectId"))
    return {}


def _remove(call: Call) -> Any:
    experiment = experiment_of(call.gateway, call.number("experiment"))
    service = call.gateway.service
    _, trials = service.plane.experiments.remove(call.actor, experiment.id)
    for trial in trials:
        service.remover.remove_if_there(call.actor, trial.run_id)
    return {}


_BASE = "/api/v1/experiments"
_ONE = f"{_BASE}/{{experiment}}"


def wish_of(call: Call, *, keeps: bool) -> tuple[Submission, str | None]:
    """The experiment that a request describes, and the id of the one on which it is based.

    Without `keeps` its files are not stored.

    Raises InvalidInput with all problems of its configuration.
    """
    if call.field("template"):
        raise InvalidInput("tarmac has no templates", hint="write the configuration whole")
    check_project(call.whole_field("projectId"))
    number = call.whole_field("parentId")
    parent = experiment_of(call.gateway, number) if number else None
    files = call.field("modelDefinition", [])
    if not isinstance(files, list):
        raise InvalidInput("modelDefinition: a list of files is expected")
    digest = parent.code_digest if parent is not None and not files else None
    if digest is None and keeps:
        digest = model_definition.take_in(files, call.gateway.service.code)
    plane = call.gateway.service.plane
    config = call.field("config", "")
    if not isinstance(config, str):
        raise InvalidInput("config: the text of an experiment configuration is expected")
    prepared = (prepare if digest is not None else planned)(_draft(call, config, digest), plane)
    spec = _completed(call, prepared.submission.spec)
    if not call.field("activate", True):
        spec = replace(spec, start_paused=True)
    return replace(prepared.submission, spec=spec), parent.id if parent is not None else None


def submission_of(call: Call, config: str, digest: str | None) -> Submission:
    """The submission of a configuration; the server has its code, if any, already."""
    prepared = planned(_draft(call, config, digest), call.gateway.service.plane)
    return replace(prepared.submission, spec=_completed(call, prepared.submission.spec))


def _draft(call: Call, config: str, digest: str | None) -> Draft:
    return Draft(
        caller=Caller(actor=call.actor, local=digest is not None),
        body=SubmissionBody(
            source=config,
            filename="config.yaml",
            directory=CONTEXT,
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
    lines = _previewed(call, config)
    values = config if isinstance(config, dict) else {}
    unit = _unit(values.get("searcher"))
    trials = [
        {"count": line.trials, "unit": {"name": unit, "value": line.length, "maxLength": line.length is None}}
        for line in lines
    ]
    simulated = [
        {
            "occurrences": line.trials,
            "operations": [{"type": "RUNNABLE_OPERATION_TYPE_TRAIN", "length": str(line.length or 0)}],
        }
        for line in lines
    ]
    return {
        "summary": {"config": values, "trials": trials},
        "simulation": {"config": values, "seed": 0, "trials": simulated},
    }


def _unit(searcher: Any) -> str:
    """The unit of a search's lengths."""
    found = searcher if isinstance(searcher, Mapping) else {}
    length = found.get("max_length")
    if isinstance(length, Mapping) and length:
        return str(next(iter(length)))
    return str(found.get("time_metric") or "batches")


def _old_preview(call: Call) -> Any:
    """The preview for 0.23, which sends only the configuration."""
    lines = _previewed(call, call.body)
    return {"results": {f"{line.length}" if line.length else "": line.trials for line in lines}}


def _previewed(call: Call, config: Any) -> Sequence[PreviewLine]:
    if isinstance(config, Mapping):
        config = {"entrypoint": "true", **config}  # the entrypoint does not matter
    text = config if isinstance(config, str) else json.dumps(config)
    return call.gateway.service.plane.experiments.preview(submission_of(call, text, None))


ROUTES = (
    post(_BASE, _create),
    post(f"{_BASE}/continue", _continue),
    patch(_ONE, _change),
    delete(_ONE, _remove),
    put(f"{_ONE}/labels/{{label:path}}", _label(_with)),
    delete(f"{_ONE}/labels/{{label:path}}", _label(_without)),
    post(f"{_ONE}/pause", _command(lambda call: call.gateway.service.plane.experiments.pause)),
    post(f"{_ONE}/activate", _command(lambda call: call.gateway.service.plane.experiments.activate)),
    post(f"{_ONE}/cancel", _command(lambda call: call.gateway.service.plane.experiments.stop)),
    post(f"{_ONE}/kill", _command(_stop_at_once)),
    post(f"{_ONE}/move", _move),
    post(f"{_ONE}/archive", _command(_archive(True))),
    post(f"{_ONE}/unarchive", _command(_archive(False))),
    post("/api/v1/preview-hp-search", _preview),
    post("/searcher/preview", _old_preview),
)
