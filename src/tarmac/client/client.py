"""`tarmac.Client`: one method per route of the API, answering plain records.

Used by `cli` and, as `tarmac.Client`, in other people's programs. Errors are those of `tarmac.model.errors`.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, TypedDict

from tarmac.client.artifact_calls import ArtifactCalls
from tarmac.client.calls import segment
from tarmac.client.cluster_calls import ClusterCalls
from tarmac.client.embedded import EmbeddedServer, home_of
from tarmac.client.event_calls import EventCalls
from tarmac.client.experiment_calls import ExperimentCalls
from tarmac.client.follow import EventCursor, LogCursor, follow
from tarmac.client.metric_calls import MetricCalls
from tarmac.client.secret_calls import SecretCalls
from tarmac.client.session_calls import SessionCalls
from tarmac.client.transport import Address, Transport, is_loopback, tcp_address
from tarmac.model.errors import Unavailable, WaitTimeout
from tarmac.model.home import INHERITED_VARIABLES, Home

if TYPE_CHECKING:
    from typing import Unpack

    from tarmac import api
    from tarmac.client.follow import Message
    from tarmac.client.launching import Run


class SubmitOptions(TypedDict, total=False):
    """What goes along with the text of a run file (docs/using/api.md)."""

    filename: str  # for messages, and the choice of a dialect
    directory: str | Path | None  # where relative code paths start: by default here
    dialect: str | None  # of the text; else its content shows it
    extras: Mapping[str, Any] | None  # files beside it, and parameters
    overrides: Mapping[str, Any] | None  # values in place of the file's own
    clone: str | None  # a run, instead of a text
    sweep: Mapping[str, str] | None  # a grid of values for parameters
    resume: bool  # the clone begins from its last checkpoint, with its code


class LogChoice(TypedDict, total=False):
    """Which logs of a run, and how much of them."""

    role: str | None
    replica: int | None
    worker: int | None
    rank: int | None
    attempt: int | None
    tail: int | None  # only the last lines of each worker so far, over all attempts
    since_s: float | None  # only what was written in the last seconds
    times: bool  # each chunk with the time of its text


URL_VARIABLE = "TARMAC_URL"
TOKEN_VARIABLE = "TARMAC_TOKEN"


class Client(
    ClusterCalls, ArtifactCalls, ExperimentCalls, MetricCalls, EventCalls, SecretCalls, SessionCalls
):
    """A connection to a tarmac server: the one `url` or TARMAC_URL names, else the user's own.

    The user's own lives in `home` (by default TARMAC_HOME, else where XDG says) and is started when there is
    none, unless `start` is false. A server behind a URL wants `token` (by default TARMAC_TOKEN, or for one on
    this machine that of the home). `on_notice` is called with
    sentences worth showing (another version serves here); by default they are warnings. `on_upload` is told
    how many bytes of code were sent, of how many, where a server cannot read it. `server_options` are given
    to a server that is started. Safe to use from several
    threads.
    """

    def __init__(
        self,
        url: str | None = None,
        *,
        home: str | Path | None = None,
        token: str | None = None,
        start: bool = True,
        on_notice: Callable[[str], None] | None = None,
        on_upload: Callable[[int, int], None] | None = None,
        server_options: Sequence[str] = (),
    ) -> None:
        self._on_upload = on_upload
        self.home = home_of(os.environ) if home is None else Home(Path(home).absolute())
        if url is None and home is None:
            url = os.environ.get(URL_VARIABLE) or None
        super().__init__(
            Transport(_address(url, self.home, token, server_options), start=start), on_notice=on_notice
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def open(self) -> None:
        """Connect ahead of the first call, which is optional: a server of one's own starts in the meantime.

        Raises TarmacError when it cannot be started.
        """
        self._transport.open()

    def close(self) -> None:
        """Close idle connections. The server and its runs go on."""
        self._transport.close()

    def version(self) -> api.Version:
        """Which server answers."""
        return self._get("/version")

    def submit(
        self,
        source: str | None = None,
        *,
        idempotency_key: str | None = None,
        **options: Unpack[SubmitOptions],
    ) -> api.Run:
        """Submit the text of a run file, or a clone of another run. On return the run is durable.

        The options are those of `SubmitOptions`. Without a key of one's own one is made, so that a submission
        which is sent twice because a connection broke is still one run.
        """
        body = _submission(source, idempotency_key=idempotency_key or _new_key(), **options)
        return self._send("POST", "/runs", self._bringing([body])[0])

    def submit_all(self, submissions: Sequence[Mapping[str, Any]]) -> list[api.Run]:
        """Submit many, all or none; each is a mapping of the arguments of `submit`."""
        bodies = [_submission(**{"idempotency_key": _new_key(), **item}) for item in submissions]
        return self._send("POST", "/runs/batch", {"runs": self._bringing(bodies)})

    def dry_run(self, source: str | None = None, **options: Unpack[SubmitOptions]) -> api.DryRun:
        """What a submission would do now: placement, command and variables per node. Nothing is kept."""
        return self._send("POST", "/runs?dry_run=true", _submission(source, **options))

    def create_experiment(
        self,
        source: str | None = None,
        *,
        fork: str | None = None,
        idempotency_key: str | None = None,
        **options: Unpack[SubmitOptions],
    ) -> api.Experiment:
        """Begin a search: the text of a run file that searches, or one with `sweep`, or a fork of another."""
        body = _submission(source, idempotency_key=idempotency_key or _new_key(), **options)
        return self._send("POST", "/experiments", {**self._bringing([body])[0], "fork": fork})

    def preview_search(self, source: str, **options: Unpack[SubmitOptions]) -> list[api.PreviewLine]:
        """How many trials of what length a search would come to. Nothing is kept."""
        return self._send("POST", "/experiments/preview", _submission(source, **options))

    def launch(self, run: Run, **overrides: Any) -> api.Run:
        """Submit a run described in Python."""
        from tarmac.client.launching import run_file  # noqa: PLC0415 - commands describe no runs

        return self.submit(run_file(run), filename="run.json", overrides=overrides)

    def check(
        self, source: str, *, filename: str = "run.yaml", directory: str | Path | None = None
    ) -> api.CheckReport:
        """Everything that is wrong with a run file."""
        body = {"source": source, "filename": filename, "directory": str(Path(directory or "").absolute())}
        return self._send("POST", "/check", body)

    def runs(
        self,
        *,
        states: Sequence[str] = (),
        user: str | None = None,
        project: str | None = None,
        name: str | None = None,
        array: str | None = None,
        labels: Mapping[str, str] | None = None,
        before: str | None = None,
        limit: int = 100,
        everything: bool = False,
        mine: bool = False,
    ) -> api.RunPage:
        """A page of the list of runs (with `mine` your own), newest first; `before` is the `next` of the page
        above.
        """
        return self._get(
            "/runs",
            limit=limit,
            state=list(states),
            label=[f"{key}={value}" for key, value in (labels or {}).items()],
            user=user,
            project=project,
            name=name,
            array=array,
            before=before,
            all="true" if everything else None,
            scope="mine" if mine else None,
        )

    def run(self, reference: str) -> api.Run:
        """A run, by id, unique beginning of an id, name (the newest of that name), or `@last`."""
        return self._get(_run_path(reference))

    def array(self, reference: str) -> api.Array:
        """The array that is meant, or that a run is a member of; raises NotFound for a single run."""
        return self._get(_run_path(reference, "/array"))

    def stop(self, reference: str, *, now: bool = False) -> api.Run:
        """End a run for good (`now`: without its grace); an array means all its members, here and below."""
        return self._send("POST", _run_path(reference, "/stop?now=true" if now else "/stop"))

    def pause(self, reference: str) -> api.Run:
        """Ask a run to leave its slots until it is resumed."""
        return self._send("POST", _run_path(reference, "/pause"))

    def resume(self, reference: str) -> api.Run:
        """Put a paused run back in the queue."""
        return self._send("POST", _run_path(reference, "/resume"))

    def annotations(self, reference: str) -> list[api.Annotation]:
        """The notes of a run and the changes of its labels, oldest first."""
        return self._get(_run_path(reference, "/annotations"))

    def note(self, reference: str, text: str) -> list[api.Annotation]:
        """Add a note to a run; the answer is that of `annotations`."""
        return self._send("POST", _run_path(reference, "/notes"), {"text": text})

    def label(self, reference: str, changes: Mapping[str, str | None]) -> api.Run:
        """Set labels of a run, and remove those that become None."""
        return self._send("PATCH", _run_path(reference, "/labels"), {"labels": dict(changes)})

    def files(
        self, reference: str, path: str = "", *, attempt: int | None = None, node: str | None = None
    ) -> api.WorkFiles:
        """A directory of what an attempt worked in: by default the newest one's, on its first node."""
        return self._get(_run_path(reference, "/files"), path=path, attempt=attempt, node=node)

    def file(
        self, reference: str, path: str, *, attempt: int | None = None, node: str | None = None
    ) -> Iterator[bytes]:
        """A file of it, piece by piece."""
        offset = 0
        place = {"path": path, "attempt": attempt, "node": node}
        while piece := self._bytes(_run_path(reference, "/file"), offset=offset, **place):
            yield piece
            offset += len(piece)

    def remove(self, reference: str) -> api.Run:
        """Remove a run that has ended, with its files and artifacts; the answer is what it was."""
        return self._send("DELETE", _run_path(reference))

    def wait(self, reference: str, *, timeout_s: float | None = None) -> api.Run:
        """Wait for a run to end, and return it; raises WaitTimeout (a TimeoutError) after `timeout_s`."""
        deadline = None if timeout_s is None else time.monotonic() + timeout_s
        run_id = self.run(reference)["id"]
        for message in follow(self._transport, EventCursor(run_id), deadline=deadline):
            if message.event == "end":
                ended: api.Run = message.data
                return ended
        run = self.run(run_id)
        if run["state"] == "ended":
            return run
        raise WaitTimeout(f"{run['name']} ({run_id}) is still {run['state']} after {timeout_s:g} s", run=run)

    def attempts(self, reference: str) -> list[api.Attempt]:
        """The attempts of a run, with their workers."""
        return self._get(_run_path(reference, "/attempts"))

    def follow_events(self, reference: str, *, after: int = 0) -> Iterator[Message]:
        """`event` messages: the history of a run, then what happens, until its `end`."""
        return follow(self._transport, EventCursor(segment("run", reference), after=after))

    def follow(self, reference: str, **choice: Unpack[LogChoice]) -> Iterator[Message]:
        """A run as it goes: messages `log`, `state` and `notice`, the last is its `end`.

        Comes through a server that dies or is restarted: every byte of a log exactly once.
        """
        return follow(self._transport, LogCursor(segment("run", reference), _log_query(**choice)))

    def logs(self, reference: str, **choice: Unpack[LogChoice]) -> Iterator[api.LogChunk]:
        """What has been written to the logs of a run so far."""
        query = {**_log_query(**choice), "follow": "false"}
        for message in follow(self._transport, LogCursor(segment("run", reference), query)):
            if message.event == "log":
                chunk: api.LogChunk = message.data
                yield chunk

    def reports(self, reference: str, *, limit: int | None = None) -> list[api.Report]:
        """The newest metrics and progress that a run's workers reported, oldest first."""
        return self._get(_run_path(reference, "/reports"), limit=limit)

    def code_changes(self, reference: str, after: str) -> list[api.CodeChange]:
        """The files that are not the same in the code of a run and of another; raises NotFound without it."""
        return self._get(_run_path(reference, "/code-changes"), after=after)

    def why(self, reference: str) -> api.Why:
        """Why a run is where it is: what it waits for, and what would unblock it."""
        return self._get(_run_path(reference, "/why"))

    def stop_server(self) -> None:
        """Ask the server to end. Runs go on, and the next server finds them."""
        self._send("POST", "/server/stop")

    def _bringing(self, bodies: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
        """Submissions with the snapshots of their code directories, sent first where the server is elsewhere.

        A server on this machine that is the user's own reads the directory itself.
        """
        if not self._transport.remote:
            return list(bodies)
        from tarmac.client.uploading import Uploads  # noqa: PLC0415 - most commands send no code

        uploads = Uploads(self._transport, on_upload=self._on_upload, leave_out=(self.home.root,))
        return [{**body, "code_digest": uploads.digest_for(body)} for body in bodies]


def _address(url: str | None, home: Home, token: str | None, server_options: Sequence[str]) -> Address:
    if url is None:
        return EmbeddedServer(home, options=server_options)
    token = token or os.environ.get(TOKEN_VARIABLE)
    if token is None and is_loopback(url):  # the home's own token is for servers of this machine alone
        token = _token_of(home)
    return tcp_address(url, token=token)


def _token_of(home: Home) -> str | None:
    """The token of the user's own server, which a loopback URL wants too."""
    try:
        return home.token.read_text().strip()
    except FileNotFoundError:
        return None
    except OSError as problem:
        raise Unavailable(f"the token {home.token} cannot be read: {problem.strerror}") from problem


def _submission(
    source: str | None = None,
    *,
    filename: str = "run.yaml",
    directory: str | Path | None = None,
    dialect: str | None = None,
    extras: Mapping[str, Any] | None = None,
    overrides: Mapping[str, Any] | None = None,
    clone: str | None = None,
    resume: bool = False,
    sweep: Mapping[str, str] | None = None,
    idempotency_key: str | None = None,
) -> dict[str, Any]:
    return {
        "source": source,
        "filename": filename,
        "directory": str(Path(directory or "").absolute()),
        "dialect": dialect,
        "extras": dict(extras or {}),
        "overrides": dict(overrides or {}),
        "clone": clone,
        **({"sweep": dict(sweep)} if sweep else {}),
        **({"resume": True} if resume else {}),  # a server of before does not know it
        "submitter": {name: os.environ[name] for name in INHERITED_VARIABLES if name in os.environ},
        "idempotency_key": idempotency_key,
    }


def _log_query(
    *,
    role: str | None = None,
    replica: int | None = None,
    worker: int | None = None,
    rank: int | None = None,
    attempt: int | None = None,
    tail: int | None = None,
    since_s: float | None = None,
    times: bool = False,
) -> dict[str, str | int | float]:
    query: dict[str, Any] = {
        "role": role,
        "replica": replica,
        "worker": worker,
        "rank": rank,
        "attempt": attempt,
        "tail": tail,
    }
    query |= {"since": since_s, "times": "true" if times else None}
    return {key: value for key, value in query.items() if value is not None}


def _new_key() -> str:
    return os.urandom(16).hex()


def _run_path(reference: str, rest: str = "") -> str:
    return f"/runs/{segment('run', reference)}{rest}"
