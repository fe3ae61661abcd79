"""`tarmac.Client`: one method per route of the API, returning plain records.

Used by `cli` and, as `tarmac.Client`, in other people's programs. Errors are those of `tarmac.model.errors`.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Self, TypedDict, TypeVar, Unpack

import tarmac
from tarmac import api
from tarmac.client.calls import path_of, query_of, segment
from tarmac.client.embedded import EmbeddedServer, home_at
from tarmac.client.logins import login_file, read_login
from tarmac.client.resource_calls import ResourceCalls, listing
from tarmac.client.transport import Address, Transport, is_loopback, tcp_address
from tarmac.model.codec import replace
from tarmac.model.errors import Unavailable, WaitTimeout
from tarmac.model.home import HOME_VARIABLE, INHERITED_VARIABLES, Home, home_directory
from tarmac.model.lifecycle import RunState

if TYPE_CHECKING:
    from pathlib import Path

    from tarmac.client.follow import Message
    from tarmac.client.resource_calls import ListFilters
    from tarmac.client.sessions import ClientSession
    from tarmac.model.progress import Event
    from tarmac.model.run_records import Annotation

    class SubmitOptions(TypedDict, total=False):
        """Options of a submission beside the text of a run file (docs/using/api.md)."""

        filename: str  # for messages, and to detect the dialect
        directory: str | Path | None  # base of relative code paths: by default the current directory
        dialect: str | None  # by default detected from the content
        extras: Mapping[str, Any] | None  # files beside it, and parameters
        overrides: Mapping[str, Any] | None  # values that replace the file's own
        clone: str | None  # a run, in place of a text
        sweep: Mapping[str, str] | None  # a grid of values for parameters
        resume: bool  # the clone starts from its last checkpoint, with its code
        idempotency_key: str | None  # the same key twice is the same run; by default a new one

    class RunFilters(ListFilters, total=False):
        """The runs of a list."""

        name: str | None
        array: str | None  # the id of an array: only its members
        everything: bool  # also runs that ended long ago


Submission = TypeVar("Submission", bound="api.SubmissionBody")


class LogChoice(TypedDict, total=False):
    """The logs to read, and the part of them."""

    role: str | None
    replica: int | None
    worker: int | None
    rank: int | None
    attempt: int | None
    tail: int | None  # only the last lines of each worker so far, over all attempts
    since_s: float | None  # only text written in the last seconds
    times: bool  # each chunk with its time


URL_VARIABLE = "TARMAC_URL"
TOKEN_VARIABLE = "TARMAC_TOKEN"
AUTHORITY_VARIABLE = "TARMAC_CA"


class Client(ResourceCalls):
    """A connection to a server: at `url` or TARMAC_URL, else that of `tarmac login`, else the user's own.

    The user's own server is in `home` (by default TARMAC_HOME, else where XDG defines) and is started if
    there is none, unless `start` is false. A server at a URL requires `token` (by default TARMAC_TOKEN, or
    for one on this machine that of the home); `authority` is the file of those that may vouch for one behind
    https:// (by default TARMAC_CA). `on_notice` gets sentences for the user (the server has another version);
    by default they are warnings. `on_upload` gets the number of code bytes sent and their total, if the
    server cannot read the code. `server_options` are passed to a server that this client starts. Safe to use
    from several threads.
    """

    def __init__(
        self,
        url: str | None = None,
        *,
        home: str | Path | None = None,
        token: str | None = None,
        authority: str | None = None,
        start: bool = True,
        on_notice: Callable[[str], None] | None = None,
        on_upload: Callable[[int, int], None] | None = None,
        server_options: Sequence[str] = (),
    ) -> None:
        self._on_upload = on_upload
        user_home = os.path.expanduser("~")
        self._directory = home_directory(os.environ, user_home=user_home) if home is None else _absolute(home)
        if url is None and home is None:
            url = os.environ.get(URL_VARIABLE) or None
            chosen = url or os.environ.get(HOME_VARIABLE)
            if not chosen and (login := read_login(login_file(os.environ))) is not None:
                url, token, authority = login.url, login.token, authority or login.ca
        address: Address = EmbeddedServer(self._directory, options=server_options)
        if url is not None:
            token = os.environ.get(TOKEN_VARIABLE) if token is None else token
            if token is None and is_loopback(url):  # the home's own token is only for servers on this machine
                token = _token_of(self.home)
            authority = authority or os.environ.get(AUTHORITY_VARIABLE) or None
            address = tcp_address(url, token=token, authority=authority)
        super().__init__(Transport(address, start=start), on_notice=on_notice)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def open(self) -> None:
        """Connect before the first call, which is optional: the user's own server starts in the meantime.

        Raises TarmacError if it cannot be started.
        """
        self._transport.open()

    def close(self) -> None:
        """Close idle connections. The server and its runs continue."""
        self._transport.close()

    @property
    def home(self) -> Home:
        """The home of the user's own server."""
        return home_at(self._directory)

    @property
    def remote(self) -> bool:
        """Whether the server is behind a URL."""
        return self._transport.remote

    def version(self) -> api.Version:
        """The version of the server."""
        return self._call(api.VERSION)

    def page_address(self) -> api.PageAddress:
        """The address of the server's page; that of one's own server admits a browser once."""
        return self._call(api.OPEN_PAGE)

    def submit(self, source: str | None = None, **options: Unpack[SubmitOptions]) -> api.Run:
        """Submit the text of a run file, or a clone of another run. On return the run is durable.

        The options are those of `SubmitOptions`. Without `idempotency_key` the client creates one, so that a
        submission sent twice because of a broken connection is still one run.
        """
        body = _submission(source, kind=api.SubmissionBody, **_with_key(options))
        return self._call(api.SUBMIT, body=self._bringing([body])[0])

    def submit_all(self, submissions: Sequence[Mapping[str, Any]]) -> list[api.Run]:
        """Submit all of several runs or none; each is a mapping of the arguments of `submit`."""
        bodies = [_submission(kind=api.SubmissionBody, **_with_key(item)) for item in submissions]
        return self._call(api.SUBMIT_ALL, body=api.BatchBody(runs=self._bringing(bodies)))

    def dry_run(self, source: str | None = None, **options: Unpack[SubmitOptions]) -> api.DryRun:
        """The result of a submission now: placement, command and variables per node. Nothing is stored."""
        body = _submission(source, kind=api.SubmissionBody, **options)
        return self._call(api.DRY_RUN, query=api.SubmitQuery(dry_run=True), body=body)

    def create_experiment(
        self, source: str | None = None, *, fork: str | None = None, **options: Unpack[SubmitOptions]
    ) -> api.Experiment:
        """Begin a search: from a run file with a search, from one with `sweep`, or by forking another."""
        body = _submission(source, kind=api.ExperimentBody, fork=fork, **_with_key(options))
        return self._call(api.CREATE_EXPERIMENT, body=self._bringing([body])[0])

    def preview_search(self, source: str, **options: Unpack[SubmitOptions]) -> list[api.PreviewLine]:
        """The number and length of a search's trials. Nothing is stored."""
        return self._call(api.PREVIEW_SEARCH, body=_submission(source, kind=api.ExperimentBody, **options))

    def launch(self, run: tarmac.Run, **overrides: Any) -> api.Run:
        """Submit a run described in Python."""
        from tarmac.client.launching import run_file

        return self.submit(run_file(run), filename="run.json", overrides=overrides)

    def check(
        self, source: str, *, filename: str = "run.yaml", directory: str | Path | None = None
    ) -> api.CheckReport:
        """Every problem of a run file."""
        body = api.CheckBody(source=source, filename=filename, directory=_absolute(directory or ""))
        return self._call(api.CHECK, body=body)

    def runs(
        self,
        *,
        labels: Mapping[str, str] | None = None,
        without: Sequence[str] = (),
        count: bool = False,
        **filters: Unpack[RunFilters],
    ) -> api.RunPage:
        """A page of runs (with `mine` the user's own), newest first; `before` is the last page's `next`.

        Members of the arrays `without` are left out. With `count`, the page has the total of all runs.
        """
        label = [f"{key}={value}" for key, value in (labels or {}).items()]
        query = api.RunsQuery(label=label, without=list(without), count=count, **listing(**filters))
        return self._call(api.RUNS, query=query)

    def run(self, reference: str) -> api.Run:
        """A run, by id, unique prefix of an id, name (the newest of that name), or `@last`."""
        return self._call(api.RUN, reference)

    def array(self, reference: str) -> api.Array:
        """The array of this reference, or the one a run is a member of; raises NotFound for a single run."""
        return self._call(api.ARRAY, reference)

    def stop(self, reference: str, *, now: bool = False) -> api.Run:
        """End a run for good (`now`: without its grace); an array means all its members, here and below."""
        return self._call(api.STOP, reference, query=api.StopQuery(now=now))

    def pause(self, reference: str) -> api.Run:
        """Ask a run to leave its slots until a user resumes it."""
        return self._call(api.PAUSE, reference)

    def resume(self, reference: str) -> api.Run:
        """Put a paused run back in the queue."""
        return self._call(api.RESUME, reference)

    def command(self, command: str, references: Sequence[str], *, now: bool = False) -> list[api.RunResult]:
        """Stop, pause or resume many runs, a thousand in a request; the results are in their order."""
        found: list[api.RunResult] = []
        for at in range(0, len(references), api.MOST_COMMANDED):
            runs = list(references[at : at + api.MOST_COMMANDED])
            body = api.CommandBody(command=api.RunCommand(command), runs=runs, now=now)
            results = self._call(api.COMMAND_RUNS, body=body)
            found += results
        return found

    def annotations(self, reference: str) -> list[Annotation]:
        """The notes of a run and the changes of its labels, oldest first."""
        return self._call(api.ANNOTATIONS, reference)

    def note(self, reference: str, text: str) -> list[Annotation]:
        """Add a note to a run; return the same as `annotations`."""
        return self._call(api.NOTE, reference, body=api.NoteBody(text=text))

    def label(self, reference: str, changes: Mapping[str, str | None]) -> api.Run:
        """Set labels of a run; None removes a label."""
        return self._call(api.LABEL, reference, body=api.LabelsBody(labels=changes))

    def files(
        self, reference: str, path: str = "", *, attempt: int | None = None, node: str | None = None
    ) -> api.WorkFiles:
        """A directory below an attempt's working directory: by default the newest's, on its first node."""
        return self._call(api.FILES, reference, query=api.FilesQuery(path=path, attempt=attempt, node=node))

    def file(
        self, reference: str, path: str, *, attempt: int | None = None, node: str | None = None
    ) -> Iterator[bytes]:
        """A file of that directory, piece by piece."""
        query = api.FileQuery(path=path, attempt=attempt, node=node)
        while piece := self._call(api.FILE, reference, query=query):
            yield piece
            query = replace(query, offset=query.offset + len(piece))

    def remove(self, reference: str) -> api.Run:
        """Remove an ended run with its files and artifacts; return its last record."""
        return self._call(api.REMOVE_RUN, reference)

    def wait(self, reference: str, *, timeout_s: float | None = None) -> api.Run:
        """Wait for a run to end, and return it; raises WaitTimeout (a TimeoutError) after `timeout_s`."""
        from tarmac.client.follow import EventCursor, follow  # few commands follow a run

        deadline = None if timeout_s is None else time.monotonic() + timeout_s
        run_id = self.run(reference).id
        for message in follow(self._transport, EventCursor(run_id), deadline=deadline):
            if message.event == "end":
                return message.data
        run = self.run(run_id)
        if run.state is RunState.ENDED:
            return run
        raise WaitTimeout(f"{run.name} ({run_id}) is still {run.state} after {timeout_s:g} s", run=run)

    def attempts(self, reference: str) -> list[api.Attempt]:
        """The attempts of a run, with their workers."""
        return self._call(api.ATTEMPTS, reference)

    def events(self, reference: str) -> list[Event]:
        """The history of a run."""
        return self._call(api.EVENTS, reference)

    def notifications(self, reference: str) -> list[api.Notification]:
        """The messages about a run, sent or pending, oldest first."""
        return self._call(api.NOTIFICATIONS, reference)

    def follow_events(self, reference: str, *, after: int = 0) -> Iterator[Message]:
        """`event` messages: the history of a run, then new events, until its `end`."""
        from tarmac.client.follow import EventCursor, follow

        return follow(self._transport, EventCursor(segment("run", reference), after=after))

    def follow(self, reference: str, **choice: Unpack[LogChoice]) -> Iterator[Message]:
        """A live run: messages `log`, `state` and `notice`, the last one is its `end`.

        Survives the death or restart of the server: every byte of a log comes exactly once.
        """
        return self._follow_logs(reference, **choice)

    def logs(self, reference: str, **choice: Unpack[LogChoice]) -> Iterator[api.LogChunk]:
        """The logs of a run so far."""
        for message in self._follow_logs(reference, follow=False, **choice):
            if message.event == "log":
                yield message.data

    def _follow_logs(
        self, reference: str, *, since_s: float | None = None, **query: Any
    ) -> Iterator[Message]:
        from tarmac.client.follow import LogCursor, follow

        cursor = LogCursor(segment("run", reference), query_of(api.LogsQuery(since=since_s, **query)))
        return follow(self._transport, cursor)

    def open_session(self, reference: str, **opening: Any) -> ClientSession:
        """Open a session beside a worker of a run; `SessionBody` of docs/using/api.md lists the arguments.

        Raises Refused if the run has no such worker now.
        """
        from tarmac.client.sessions import ClientSession, opening_frame

        path = path_of(api.OPEN_SESSION, reference)
        return ClientSession(*self._transport.open_stream(path, opening_frame(opening)))

    def reports(self, reference: str, *, limit: int | None = None) -> list[api.Report]:
        """The newest metrics and progress that a run's workers reported, oldest first."""
        return self._call(api.REPORTS, reference, query=api.ReportsQuery(limit=limit))

    def code_changes(self, reference: str, after: str) -> list[api.CodeChange]:
        """The files that differ between the code of a run and of another; raises NotFound without code."""
        return self._call(api.CODE_CHANGES, reference, query=api.CodeChangesQuery(after=after))

    def why(self, reference: str) -> api.Why:
        """Why a run is in its state: the reasons for waiting, and their remedies."""
        return self._call(api.WHY, reference)

    def announce(self, text: str, *, until_at: float | None = None) -> api.Version:
        """Announce a text to all users of the server's database, until a time; an empty text clears it."""
        return self._call(api.ANNOUNCE, body=api.AnnouncementBody(text=text, until_at=until_at))

    def stop_server(self) -> None:
        """Ask the server to end. Its runs continue, and the next server finds them."""
        self._call(api.STOP_SERVER)

    def _bringing(self, bodies: Sequence[Submission]) -> list[Submission]:
        """Submissions with the snapshots of their code, sent to a remote server; one's own reads the code."""
        if not self._transport.remote:
            return list(bodies)
        from tarmac.client.uploading import Uploads

        uploads = Uploads(self._transport, on_upload=self._on_upload, leave_out=(self.home.root,))
        return [replace(body, code_digest=uploads.digest_for(body)) for body in bodies]


def _token_of(home: Home) -> str | None:
    """The token of the user's own server, which a loopback URL requires as well."""
    try:
        return home.token.read_text().strip()
    except FileNotFoundError:
        return None
    except OSError as problem:
        raise Unavailable(f"the token {home.token} cannot be read: {problem.strerror}") from problem


def _submission(
    source: str | None = None,
    *,
    kind: type[Submission],
    directory: str | Path | None = None,
    extras: Mapping[str, Any] | None = None,
    **options: Any,
) -> Submission:
    return kind(
        source=source,
        directory=_absolute(directory or ""),
        extras=dict(extras or {}),  # type: ignore[arg-type]  # the server checks it
        submitter={name: os.environ[name] for name in INHERITED_VARIABLES if name in os.environ},
        **{name: value for name, value in options.items() if value is not None},
    )


def _absolute(path: str | Path) -> str:
    """The absolute path; `..` remains, because it may lead out of a linked directory."""
    return str(path) if str(path).startswith("/") else os.path.join(os.getcwd(), path).rstrip("/") or "/"


def _with_key(options: Mapping[str, Any]) -> dict[str, Any]:
    return {**options, "idempotency_key": options.get("idempotency_key") or os.urandom(16).hex()}
