"""`POST /runs`, `/runs/batch` and `/check`: accept and check runs. Joined to the application by `app`.

The hot path: all submissions that arrive during a transaction share the next one. A commit waits for the
disk; one with a hundred submissions waits no longer than one with a single submission.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path

from starlette.concurrency import run_in_threadpool
from starlette.responses import Response

from tarmac import api
from tarmac.api.operation import Query
from tarmac.control.admission import Accepted
from tarmac.control.service import ControlPlane
from tarmac.model.errors import InvalidInput, NotFound, Refused, TarmacError
from tarmac.model.spec import RunSpec
from tarmac.server.http.answers import JsonAnswer
from tarmac.server.http.routing import Call, Offer, serve
from tarmac.server.records import dry_run_record, run_record
from tarmac.server.service import Handlers, Service
from tarmac.server.submitting.submissions import (
    Draft,
    Prepared,
    after_hook,
    after_hook_here,
    planned,
    prepare,
    read_file,
)

BATCH_LIMIT = 200
"""Maximum submissions in a transaction: enough to use the wait for the disk, and not much more."""

_OWN_FAULTS = (InvalidInput, NotFound, Refused)


class BatchSubmitter:
    """Collects drafts in the event loop and submits them in a thread, one batch at a time."""

    def __init__(self, plane: ControlPlane) -> None:
        self._plane = plane
        self._turn = asyncio.Lock()
        self._forming: _Batch | None = None

    async def enter(self, draft: Draft) -> Accepted:
        """Submit a draft; on return it is durable. Raises the errors of this draft only."""
        batch = self._forming
        if batch is None or len(batch.drafts) >= BATCH_LIMIT:
            batch = self._forming = _Batch()
            batch.results = asyncio.create_task(self._submit(batch))
        place = len(batch.drafts)
        batch.drafts.append(draft)
        assert batch.results is not None
        # Shielded: a client's disconnect must not cancel the others of its batch.
        result = (await asyncio.shield(batch.results))[place]
        if isinstance(result, TarmacError):
            raise result
        return result

    async def _submit(self, batch: _Batch) -> list[Accepted | TarmacError]:
        """Wait for the previous batch, then submit the drafts collected in the meantime."""
        async with self._turn:
            if self._forming is batch:
                self._forming = None
            return await run_in_threadpool(submit_each, batch.drafts, self._plane)


@dataclass(slots=True)
class _Batch:
    """Drafts to be committed together, and their future results, in the same order."""

    drafts: list[Draft] = field(default_factory=list)
    results: asyncio.Task[list[Accepted | TarmacError]] | None = None


def submit_each(drafts: Sequence[Draft], plane: ControlPlane) -> list[Accepted | TarmacError]:
    """Submit unrelated drafts in as few transactions as possible.

    An invalid or refused draft does not affect the others. An error of the store affects all of them.
    """
    prepared = [_prepared(draft, plane) for draft in drafts]
    good = [item for item in prepared if isinstance(item, Prepared)]
    entered = iter(_submitted(good, plane))
    return [next(entered) if isinstance(item, Prepared) else item for item in prepared]


def submit_together(drafts: Sequence[Draft], plane: ControlPlane) -> list[Accepted]:
    """Submit related drafts: all in one transaction, or none. Raises the first error."""
    return _accepted([prepare(draft, plane) for draft in drafts], plane)


def _prepared(draft: Draft, plane: ControlPlane) -> Prepared | TarmacError:
    try:
        return prepare(draft, plane)
    except TarmacError as problem:
        return problem
    except RecursionError:  # does not affect others of the batch
        return InvalidInput("the run file is nested too deeply")


def _submitted(prepared: Sequence[Prepared], plane: ControlPlane) -> list[Accepted | TarmacError]:
    if not prepared:
        return []
    try:
        return [*_accepted(prepared, plane)]
    except _OWN_FAULTS as problem:
        if len(prepared) == 1:
            return [problem]
        return [result for item in prepared for result in _submitted([item], plane)]
    except TarmacError as problem:
        return [problem] * len(prepared)


def _accepted(prepared: Sequence[Prepared], plane: ControlPlane) -> list[Accepted]:
    """Submit in one transaction; the warnings of readers come first."""
    accepted = plane.submit([item.submission for item in prepared])
    return [
        replace(run, warnings=item.warnings + run.warnings)
        for run, item in zip(accepted, prepared, strict=True)
    ]


class SlotsNotice:
    """A notice about this machine's slots, for the first run of a home that requests slots."""

    def __init__(self, text: str | None, marker: Path) -> None:
        self._text = text
        self._marker = marker

    def take(self, spec: RunSpec) -> tuple[str, ...]:
        """The notice at its first use; rehearsals have their own slots and get none."""
        if self._text is None or not spec.slots or spec.rehearsal is not None:
            return ()
        text, self._text = self._text, None
        with suppress(OSError):  # a full disk: the notice may be repeated
            try:
                self._marker.touch(exist_ok=False)
            except FileExistsError:
                return ()
        return (text,)


class SubmittingHandlers(Handlers):
    """The routes that accept runs."""

    def __init__(self, service: Service) -> None:
        super().__init__(service)
        self._submitter = BatchSubmitter(service.plane)
        self._slots_notice = SlotsNotice(service.slots_note, service.home.slots_note_marker)

    @serve(api.SUBMIT)
    async def submit(self, call: Call[api.SubmitQuery, api.SubmissionBody]) -> Response:
        """Submit a run.

        200 instead of 201 if its idempotency key is known; 409 if that key was used for another request.
        """
        draft = Draft(caller=call.caller, body=call.body, rules=self.service.reading)
        draft = await after_hook(self.service, draft, dry_run=call.query.dry_run)
        if call.query.dry_run:
            return await run_in_threadpool(_dry_run, self.service, draft)
        accepted = await self._submitter.enter(draft)
        run, note = accepted.run, self._slots_notice.take(accepted.run.spec)
        record = run_record(run, warnings=accepted.warnings + note)
        return JsonAnswer(record, status_code=201 if accepted.created else 200)

    @serve(api.SUBMIT_ALL)
    def submit_all(self, call: Call[Query, api.BatchBody]) -> list[api.Run]:
        """Submit runs that belong together: all are accepted in one transaction, or none."""
        drafts = [Draft(caller=call.caller, body=item, rules=self.service.reading) for item in call.body.runs]
        drafts = [after_hook_here(self.service, draft) for draft in drafts]
        return [run_record(each.run, warnings=each.warnings) for each in submit_together(drafts, self.plane)]

    @serve(api.CHECK)
    def check(self, call: Call[Query, api.CheckBody]) -> api.CheckReport:
        """Return all problems of a run file, in an answer with status 200."""
        try:
            reading = read_file(call.body.source, call.body, self.service.reading.dialects)
        except InvalidInput as problem:
            return api.CheckReport(problems=problem.problems, warnings=())
        return api.CheckReport(problems=(), warnings=reading.warnings)

    dry_run = Offer(api.DRY_RUN, "With `dry_run=true`, return the result that a submission would have.")


def _dry_run(service: Service, draft: Draft) -> Response:
    prepared = planned(draft, service.plane)
    found = service.plane.dry_run(prepared.submission)
    return JsonAnswer(dry_run_record(found, warnings=prepared.warnings))
