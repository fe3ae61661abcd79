"""`POST /runs`, `/runs/batch` and `/check`: accept and check runs. Joined to the application by `app`."""

from starlette.concurrency import run_in_threadpool
from starlette.responses import Response

from tarmac import api
from tarmac.api.operation import Query
from tarmac.model.errors import InvalidInput
from tarmac.server.http.answers import JsonAnswer
from tarmac.server.http.auth import Caller
from tarmac.server.http.routing import Call, Routes
from tarmac.server.records.runs import dry_run_record, run_record
from tarmac.server.service import Service
from tarmac.server.submitting.submissions import Draft, extras_of, planned, read_once
from tarmac.server.submitting.submit_batch import BatchSubmitter, Submitted, submit_together


def add_submitting_routes(routes: Routes, service: Service) -> None:
    """Add the routes that accept runs."""
    submitter = BatchSubmitter(service.plane)

    @routes.serve(api.SUBMIT)
    async def submit(call: Call[api.SubmitQuery, api.SubmissionBody]) -> Response:
        """Submit a run; 200 instead of 201 if its idempotency key is known."""
        draft = draft_of(call.caller, call.body, service)
        if call.query.dry_run:
            return await run_in_threadpool(_dry_run, service, draft)
        entered = await submitter.enter(draft)
        note = service.slots_note.take(entered.accepted.run.spec)
        return JsonAnswer(_entered(entered, note), status_code=201 if entered.accepted.created else 200)

    @routes.serve(api.SUBMIT_ALL)
    def submit_all(call: Call[Query, api.BatchBody]) -> list[api.Run]:
        """Submit runs that belong together: all are accepted in one transaction, or none."""
        drafts = [draft_of(call.caller, item, service) for item in call.body.runs]
        return [_entered(entered) for entered in submit_together(drafts, service.plane)]

    @routes.serve(api.CHECK)
    def check(call: Call[Query, api.CheckBody]) -> api.CheckReport:
        """Return all problems of a run file."""
        body = call.body
        try:
            reading = read_once(
                body.source,
                body.filename,
                body.directory,
                dialect=body.dialect,
                extras=extras_of(body.extras),
                dialects=service.dialects,
            )
        except InvalidInput as problem:
            return api.CheckReport(problems=problem.problems, warnings=())
        return api.CheckReport(problems=(), warnings=reading.warnings)

    routes.describe(api.DRY_RUN, "")


def draft_of(caller: Caller, body: api.SubmissionBody, service: Service) -> Draft:
    """The submission in the body of a request."""
    return Draft(
        caller=caller,
        body=body,
        dialects=service.dialects,
        names=service.names,
        code_limit_bytes=service.arrivals.limit_bytes,
        containers=service.containers,
        images=service.local_images,
    )


def _dry_run(service: Service, draft: Draft) -> Response:
    prepared = planned(draft, service.plane)
    found = service.plane.dry_run(prepared.submission)
    return JsonAnswer(dry_run_record(found, warnings=prepared.warnings))


def _entered(entered: Submitted, notes: tuple[str, ...] = ()) -> api.Run:
    return run_record(entered.accepted.run, warnings=entered.warnings + notes)
