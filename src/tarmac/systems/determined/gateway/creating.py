"""Converts a request for an experiment into a submission of tarmac. Called by `routes.experiments`."""

from __future__ import annotations

import os
from dataclasses import dataclass

from tarmac.api.submit_operations import SubmissionBody
from tarmac.control.admission import Submission
from tarmac.model.errors import InvalidInput
from tarmac.model.experiment import Experiment
from tarmac.model.home import INHERITED_VARIABLES
from tarmac.model.record import replace
from tarmac.model.spec import LocalDirectory, RunSpec
from tarmac.server.http.auth import Caller
from tarmac.server.submitting.submissions import Draft, planned, prepare
from tarmac.systems.determined.gateway import model_definition
from tarmac.systems.determined.gateway.calls import Call
from tarmac.systems.determined.gateway.changing import Changes, changed
from tarmac.systems.determined.gateway.model_definition import CONTEXT
from tarmac.systems.determined.gateway.numbering import check_project, experiment_of
from tarmac.systems.determined.gateway.routes.pools import default_pool
from tarmac.systems.determined.reader import NAME
from tarmac.systems.determined.search import search_of


@dataclass(frozen=True, slots=True, kw_only=True)
class Wish:
    """A requested experiment. `parent` is the experiment on which it is based."""

    submission: Submission
    parent: Experiment | None = None


def wish_of(call: Call, *, keeps: bool) -> Wish:
    """The experiment that a request describes. Without `keeps` its files are not stored.

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
    return Wish(submission=replace(prepared.submission, spec=spec), parent=parent)


def submission_of(call: Call, config: str, digest: str | None) -> Submission:
    """The submission of a configuration; the server has its code, if any, already."""
    prepared = planned(_draft(call, config, digest), call.gateway.service.plane)
    return replace(prepared.submission, spec=_completed(call, prepared.submission.spec))


def preview_of(call: Call, config: str) -> Submission:
    """The submission for the preview of a search, from a configuration alone."""
    return submission_of(call, config, None)


def _draft(call: Call, config: str, digest: str | None) -> Draft:
    service = call.gateway.service
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
        dialects=service.dialects,
        names=service.names,
        containers=service.containers,
        images=service.local_images,
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
