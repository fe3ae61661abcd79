"""Passes drafts through the site's submission hook, if the server has one. Called by routes that submit."""

import asyncio
import dataclasses
from collections.abc import Callable
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
    if service.hook is None:
        return draft
    check = None if dry_run else refuse_search
    call = partial(_changed, service.hook, draft, service.plane, check=check, dry_run=dry_run)
    return await asyncio.wrap_future(service.hook.begin(call))


def after_hook_here(service: Service, draft: Draft) -> Draft:
    """Like `after_hook`, for runs and experiments, and for handlers that run in a thread."""
    if service.hook is None:
        return draft
    return service.hook.begin(partial(_changed, service.hook, draft, service.plane)).result()


def _changed(
    hook: SubmissionHook,
    draft: Draft,
    plane: ControlPlane,
    *,
    check: Callable[[RunSpec], None] | None = None,
    dry_run: bool = False,
) -> Draft:
    try:
        reading = requested(draft, plane)
    except RecursionError:
        raise InvalidInput("the run file is nested too deeply") from None
    if check is not None:
        check(reading.spec)
    clone = draft.body.clone is not None or draft.base is not None
    spec = hook.changed(reading.spec, user=draft.caller.actor.user, clone=clone, dry_run=dry_run)
    warnings = (*reading.warnings, *spec.hook_changes)
    return dataclasses.replace(draft, requested=dataclasses.replace(reading, spec=spec, warnings=warnings))
