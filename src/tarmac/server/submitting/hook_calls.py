"""Passes drafts through the site's submission hook, if the server has one. Called by routes that submit."""

import asyncio
from collections.abc import Callable
from dataclasses import replace
from functools import partial

from tarmac.control.admission import refuse_search
from tarmac.control.service import ControlPlane
from tarmac.model.errors import InvalidInput
from tarmac.model.spec import RunSpec
from tarmac.server.service import Service
from tarmac.server.submission_hook import SubmissionHook
from tarmac.server.submitting.submissions import Draft, requested


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
    return replace(draft, requested=replace(reading, spec=spec, warnings=warnings))
