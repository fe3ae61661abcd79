"""`POST /runs`, `/runs/batch` and `/check`: accept and check runs. Joined to the application by `app`."""

from starlette.concurrency import run_in_threadpool
from starlette.responses import Response

from tarmac import api
from tarmac.api.operation import Query
from tarmac.model.errors import InvalidInput
from tarmac.server.http.answers import JsonAnswer
from tarmac.server.http.routing import Call, Routes
from tarmac.server.records import dry_run_record, run_record
from tarmac.server.service import Service
from tarmac.server.submitting.submissions import Draft, planned, read_file
from tarmac.server.submitting.submit_batch import BatchSubmitter, submit_together


def add_submitting_routes(routes: Routes, service: Service) -> None:
    """Add the routes that accept runs."""
    submitter = BatchSubmitter(service.plane)

    @routes.serve(api.SUBMIT)
    async def submit(call: Call[api.SubmitQuery, api.SubmissionBody]) -> Response:
        """Submit a run.

        200 instead of 201 if its idempotency key is known; 409 if that key was used for another request.
        """
        draft = Draft(caller=call.caller, body=call.body, rules=service.reading)
        if call.query.dry_run:
            return await run_in_threadpool(_dry_run, service, draft)
        accepted = await submitter.enter(draft)
        run, note = accepted.run, service.slots_note.take(accepted.run.spec)
        record = run_record(run, warnings=accepted.warnings + note)
        return JsonAnswer(record, status_code=201 if accepted.created else 200)

    @routes.serve(api.SUBMIT_ALL)
    def submit_all(call: Call[Query, api.BatchBody]) -> list[api.Run]:
        """Submit runs that belong together: all are accepted in one transaction, or none."""
        drafts = [Draft(caller=call.caller, body=item, rules=service.reading) for item in call.body.runs]
        return [
            run_record(each.run, warnings=each.warnings) for each in submit_together(drafts, service.plane)
        ]

    @routes.serve(api.CHECK)
    def check(call: Call[Query, api.CheckBody]) -> api.CheckReport:
        """Return all problems of a run file, in an answer with status 200."""
        try:
            reading = read_file(call.body.source, call.body, service.reading.dialects)
        except InvalidInput as problem:
            return api.CheckReport(problems=problem.problems, warnings=())
        return api.CheckReport(problems=(), warnings=reading.warnings)

    routes.describe(api.DRY_RUN, "With `dry_run=true`, return the result that a submission would have.")


def _dry_run(service: Service, draft: Draft) -> Response:
    prepared = planned(draft, service.plane)
    found = service.plane.dry_run(prepared.submission)
    return JsonAnswer(dry_run_record(found, warnings=prepared.warnings))
