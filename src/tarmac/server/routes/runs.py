"""The list of runs, one run with its annotations and files, and commands to it. Joined by `server.app`.

`/runs/{ref}/events`, `/logs` and `/reports` are a run's events and output, once or live.
"""

from collections.abc import Iterator, Sequence
from functools import partial

import msgspec
from starlette.concurrency import run_in_threadpool
from starlette.responses import Response, StreamingResponse

from tarmac import api
from tarmac.api.operation import BYTES, JSON, Query
from tarmac.model.codec import inherited
from tarmac.model.errors import InvalidInput, TarmacError
from tarmac.model.loss import loss_of
from tarmac.model.run import Run
from tarmac.model.run_records import Annotation
from tarmac.model.summary import RunQuery
from tarmac.server.http.answers import JsonAnswer, notice
from tarmac.server.http.routing import Call, serve, whole
from tarmac.server.logs.log_lines import RunLogs
from tarmac.server.logs.log_view import LogQuery, LogView
from tarmac.server.logs.reports import reports_of
from tarmac.server.logs.streams import StreamResponse, event_frames, log_frames, parse, wants_stream
from tarmac.server.records import attempt_record, notification_record, run_record
from tarmac.server.service import Handlers, Service
from tarmac.server.storage.work_files import WorkFiles, pieces

_DAY_S = 86_400.0


class RunHandlers(Handlers):
    """The routes about runs, and about their history, logs and reports."""

    def __init__(self, service: Service) -> None:
        super().__init__(service)
        self._work = WorkFiles(service.plane)
        self._logs = RunLogs(service.plane, service.secrets.mask)

    @serve(api.ATTEMPTS)
    def attempts(self, call: Call) -> list[api.Attempt]:
        """Return the attempts of a run, with workers, notices and the present use of resources."""
        found = self.plane.attempts(call.actor, self.plane.find(call.actor, call.reference).id)
        return [
            attempt_record(
                attempt,
                self.plane.workers(call.actor, attempt.id),
                self.plane.notices(call.actor, attempt.id),
                self.plane.usage.attempt_utilization(call.actor, attempt.id)
                if attempt.ended_at is None
                else (),
                directory=self.service.attempt_directory(attempt),
                lost=loss_of(found[:number], found[number] if number < len(found) else None),
            )
            for number, attempt in enumerate(found, start=1)
        ]

    @serve(api.NOTIFICATIONS)
    def notifications(self, call: Call) -> list[api.Notification]:
        """Return the messages about a run, sent or to be sent, oldest first."""
        found = self.plane.notifications(call.actor, self.plane.find(call.actor, call.reference).id)
        return [notification_record(message) for message in found]

    @serve(api.FILES)
    def files(self, call: Call[api.FilesQuery]) -> api.WorkFiles:
        """Return a directory of an attempt's working directory, to the owner of the run and admins."""
        place = call.query
        return self._work.listing(
            call.actor, call.reference, place.path, attempt=place.attempt, node=place.node
        )

    @serve(api.FILE)
    def file(self, call: Call[api.FileQuery]) -> bytes | Response:
        """Return the next bytes of a file, at most 1 MiB and none at its end, to the owner and admins."""
        place = call.query
        read = partial(
            self._work.piece, call.actor, call.reference, place.path, attempt=place.attempt, node=place.node
        )
        first = read(offset=place.offset)
        if not place.whole:
            return first
        rest = pieces(first, place.offset, read)
        return StreamingResponse(rest, media_type=BYTES, headers={"Content-Disposition": "attachment"})

    @serve(api.WHY)
    def why(self, call: Call) -> api.Why:
        """Return the reasons why a run waits, and the events that would unblock it."""
        return self.plane.why(call.actor, call.reference)

    @serve(api.ARRAY)
    def array(self, call: Call) -> api.Array:
        """Return the progress of an array, named by itself or by one of its members. 404 for a single run."""
        return self.plane.array(call.actor, call.reference)

    @serve(api.ANNOTATIONS)
    def all_annotations(self, call: Call) -> list[Annotation]:
        """Return the notes of a run and the changes of its labels, oldest first."""
        return self.service.annotations.of(call.actor, call.reference)

    @serve(api.NOTE)
    def note(self, call: Call[Query, api.NoteBody]) -> list[Annotation]:
        """Add a note of at most 4,000 characters; the answer is as for `/annotations`.

        An identical note within a minute is ignored.
        """
        return self.service.annotations.note(call.actor, call.reference, call.body.text)

    @serve(api.LABEL)
    def label(self, call: Call[Query, api.LabelsBody]) -> api.Run:
        """Set labels of a run, and remove those set to null."""
        return run_record(self.service.annotations.label(call.actor, call.reference, call.body.labels))

    @serve(api.LABEL_RUNS)
    def label_runs(self, call: Call[Query, api.LabelRunsBody]) -> list[api.RunResult]:
        """Label many runs in one transaction, and return a result for each, in their order.

        A refusal of one run does not affect the others; a run without a label to remove is unchanged.
        """
        return _results(self.service.annotations.label_each(call.actor, call.body.runs, call.body.labels))

    @serve(api.RUNS)
    def runs(self, call: Call[api.RunsQuery]) -> api.RunPage:
        """Return a page of runs, newest first.

        Runs that ended longer ago than the setting `list.ended_days` are left out, unless the query has
        `all`, `state`, `name` or `array`.
        """
        query = _run_query(call.query, recent=self.service.clock.now() - self.service.ended_days * _DAY_S)
        found = self.plane.runs(call.actor, query, scope=call.query.scope)
        following = found[-1].id if len(found) == query.limit else None
        total = self.plane.tables.total(call.actor, query, call.query.scope) if call.query.count else None
        return api.RunPage(runs=found, next=following, total=total)

    @serve(api.RUN)
    def run(self, call: Call) -> api.Run:
        """Return a run, by id, unique beginning of an id, or name (the newest of that name).

        `NAME[INDEX]` is a member of an array.
        """
        found = self.plane.find(call.actor, call.reference)
        return run_record(found, staged=self.plane.burst.is_staged(found))

    @serve(api.REMOVE_RUN)
    def remove_run(self, call: Call) -> api.Run:
        """Remove an ended run, with its files and artifacts, and return its record.

        409 for a run that has not ended, and while a live run needs its artifacts. The name or id of an array
        refers to all its members.
        """
        return run_record(self.service.remover.remove(call.actor, call.reference))

    @serve(api.STOP)
    def stop(self, call: Call[api.StopQuery]) -> api.Run:
        """End a run for good, with `now` without its grace.

        The name or id of an array refers to all its members.
        """
        return run_record(self.plane.stop(call.actor, call.reference, at_once=call.query.now))

    @serve(api.PAUSE)
    def pause(self, call: Call) -> api.Run:
        """Ask a run to leave its slots until a user resumes it.

        The name or id of an array refers to all its members.
        """
        return run_record(self.plane.pause(call.actor, call.reference))

    @serve(api.RESUME)
    def resume(self, call: Call) -> api.Run:
        """Return a paused run to the queue.

        The name or id of an array refers to all its members.
        """
        return run_record(self.plane.resume(call.actor, call.reference))

    @serve(api.COMMAND_RUNS)
    def command(self, call: Call[Query, api.CommandBody]) -> list[api.RunResult]:
        """Stop, pause or resume many runs in one transaction, and return a result for each, in their order.

        A refusal of one run does not affect the others. The name or id of an array refers to all its members.
        """
        body = call.body
        return _results(self.plane.command(call.actor, body.command, body.runs, at_once=body.now))

    @serve(api.EVENTS)
    async def events(self, call: Call[api.EventsQuery]) -> Response:
        """Return the history of a run; as an event stream also later events, until its end.

        A stream has messages `event` (`Event`), and last `end` (`Run`). The id of a message is the `seq` of
        its event; the header `Last-Event-ID` resumes a stream after that event.
        """
        after = call.query.after
        if last := call.request.headers.get("last-event-id"):
            if (number := whole(last)) is None:
                raise InvalidInput(f"Last-Event-ID: {last!r:.80} is not the number of an event")
            after = number
        run = await run_in_threadpool(self.plane.find, call.actor, call.reference)
        if wants_stream(call.request):
            return StreamResponse(event_frames(self.service, call.actor, call.request, run.id, after))
        history = await run_in_threadpool(self.plane.events, call.actor, run.id, after)
        return JsonAnswer(history)

    @serve(api.LOGS)
    async def logs(self, call: Call[api.LogsQuery]) -> Response:
        """Return the output of a run's workers; as an event stream also later output, until its end.

        A stream has messages `log` (`LogChunk`), `state` (`RunStatus`) and `notice` (`StreamNotice`), and
        last `end` (`Run`), after every byte. The header `Last-Event-ID` resumes a stream.
        """
        streams, chosen = wants_stream(call.request), call.query
        query = LogQuery(
            **inherited(api.LogsQuery, chosen, but="follow"),
            follow=streams and chosen.follow,
            since_at=None if chosen.since is None else self.service.clock.now() - chosen.since,
            places=parse(call.request.headers.get("last-event-id", "")),
        )
        view = await run_in_threadpool(
            LogView, self.plane, call.actor, call.reference, query, self.service.secrets.mask
        )
        if streams:
            return StreamResponse(log_frames(self.service, call.request, view))
        return StreamingResponse(_log_list(view), media_type=JSON)

    @serve(api.LOG_LINES)
    def log_lines(self, call: Call[api.LogLinesQuery]) -> api.LogWindow:
        """Return lines of one worker's log: by default the last of rank 0, or of the first worker.

        A filter reads for a bounded time: from `start` or `next` of the answer on, others may match.
        """
        return self._logs.window(call.actor, call.reference, call.query)

    @serve(api.LOG_TEXT)
    async def log_text(self, call: Call[api.LogChoice]) -> Response:
        """Return all of one worker's log as text, for a download."""
        text = await run_in_threadpool(self._logs.text, call.actor, call.reference, call.query)
        headers = {"Content-Disposition": "attachment"}
        return StreamingResponse(text, media_type=api.LOG_TEXT.media, headers=headers)

    @serve(api.REPORTS)
    def reports(self, call: Call[api.ReportsQuery]) -> Response:
        """Return the newest metrics and progress reported by a run's workers, up to 1 MiB, oldest first.

        The server reads the ends of the files of the newest attempts. Without `limit` the header
        `Tarmac-Notice` mentions omitted older reports.
        """
        run, limit = self.plane.find_here(call.actor, call.reference), call.query.limit
        found, is_cut = reports_of(self.plane, call.actor, run, self.service.secrets.mask(run), limit=limit)
        return JsonAnswer(found, headers=notice(_ONLY_NEWEST if is_cut and limit is None else None))


def _results(found: Sequence[Run | TarmacError]) -> list[api.RunResult]:
    """A result for each of many runs."""
    return [
        api.RunResult(error=api.error_form(each))
        if isinstance(each, TarmacError)
        else api.RunResult(run=run_record(each))
        for each in found
    ]


def _run_query(query: api.RunsQuery, *, recent: float) -> RunQuery:
    """The query to the store. A plain list omits runs that ended before `recent`."""
    plain = not (query.everything or query.state or query.name or query.array)
    return RunQuery(
        states=frozenset(query.state),
        user=query.user,
        project=query.project,
        name=query.name,
        array_id=query.array,
        without=frozenset(query.without),
        labels=_labels(query.label),
        ended_after=recent if plain else None,
        before_id=query.before,
        limit=query.limit,
    )


def _labels(pairs: list[str]) -> dict[str, str]:
    labels: dict[str, str] = {}
    for pair in pairs:
        key, separator, value = pair.partition("=")
        if not separator:
            raise InvalidInput(f"label: {pair!r} is not of the form KEY=VALUE")
        labels[key] = value
    return labels


_ONLY_NEWEST = "older reports are left out; tarmac metrics RUN --csv has every number that was kept"


def _log_list(view: LogView) -> Iterator[bytes]:
    """The present chunks as one JSON list, piece by piece: logs may be larger than memory."""
    separator = b"["
    more = True
    while more:
        look = view.look(survey=False)
        for name, data in look.messages:
            if name == "log":
                yield separator + msgspec.json.encode(data)
                separator = b","
        more = look.more
    yield b"[]" if separator == b"[" else b"]"
