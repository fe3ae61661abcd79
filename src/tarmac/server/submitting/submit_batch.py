"""The hot path of submitting: all submissions that arrive during a transaction share the next one.

A commit waits for the disk; one with a hundred submissions waits no longer than one with a single submission.
Used by `POST /runs`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from starlette.concurrency import run_in_threadpool

from tarmac.control.admission import Accepted
from tarmac.control.service import ControlPlane
from tarmac.model.errors import InvalidInput, NotFound, Refused, TarmacError
from tarmac.server.submitting.submissions import Draft, Prepared, prepare

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
