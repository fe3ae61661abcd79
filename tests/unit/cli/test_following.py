"""Following over a scripted client: what reaches the view, the exit code, news in a silence."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, cast

import pytest

from answers import a_chunk, a_notice, a_report, a_run, a_status, an_attempt
from tarmac import api
from tarmac.api.placement import Why
from tarmac.cli.following import News, expected_workers, follow
from tarmac.client.client import Client, LogChoice
from tarmac.client.follow import Message
from tarmac.model.errors import Unavailable
from tarmac.model.lifecycle import RunState

LIMIT_S = 120.0
SPEC = {"name": "digits", "roles": [{"processes": [{}]}, {"name": "ps", "processes": [{}, {}]}]}
ATTEMPT = {
    "number": 1,
    "nodes": ["n-1", "n-2"],
    "placements": [
        {"role": "main", "replica": 0, "node": "n-1"},
        {"role": "main", "replica": 1, "node": "n-2"},
        {"role": "ps", "replica": 0, "node": "n-2"},
    ],
}


def waits(headline: str) -> Why:
    return Why(run_id="r1", state=RunState.QUEUED, headline=headline)


class ScriptedClient:
    """A client that yields given messages; an exception among them is raised."""

    def __init__(self, script: Sequence[Message | BaseException] = ()) -> None:
        self.script = script
        self.why_answer: Callable[[], Why] = lambda: waits("queued")
        self.report_answers: list[list[api.Report]] = []
        self.attempts_asked = 0
        self.followed_with: dict[str, Any] = {}

    def follow(self, _run_id: str, **query: Any) -> Iterator[Message]:
        self.followed_with = query
        for message in self.script:
            if isinstance(message, BaseException):
                raise message
            yield message

    def run(self, run_id: str) -> api.Run:
        return a_run({"id": run_id, "spec": SPEC})

    def attempts(self, _run_id: str) -> list[api.Attempt]:
        self.attempts_asked += 1
        return [an_attempt(ATTEMPT)]

    def why(self, _run_id: str) -> Why:
        return self.why_answer()

    def reports(self, _run_id: str, *, limit: int) -> list[api.Report]:
        return self.report_answers.pop(0) if len(self.report_answers) > 1 else self.report_answers[0]


class RecordingView:
    """Keeps the calls, and lets a test wait for one of a kind."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, Any]] = []
        self._arrived = threading.Condition()

    def submitted(self, run: api.Run) -> None:
        self._call("submitted", run)

    def expect(self, workers: Iterable[tuple[str, int, int]]) -> None:
        listed = [".".join(map(str, worker)) for worker in workers]
        if listed and ("expect", listed) not in self.calls:  # a view expects each worker once
            self._call("expect", listed)

    def log(self, chunk: api.LogChunk) -> None:
        self._call("log", chunk.text)

    def state(self, summary: api.RunStatus, nodes: Sequence[str], result_text: str = "") -> None:
        self._call("state", (str(summary.state), tuple(nodes)))
        if result_text:
            self._call("told", result_text)

    def notice(self, notice: api.StreamNotice) -> None:
        self._call("notice", notice.text)

    def waiting(self, why: Why) -> None:
        self._call("waiting", why.headline)

    def report(self, report: api.Report) -> None:
        self._call("report", report.step)

    def detached(self, run_id: str) -> None:
        self._call("detached", run_id)

    def end(self, run: api.Run) -> None:
        self._call("end", run.outcome)

    def finish(self) -> None:
        self._call("finish", None)

    def wait_for(self, kind: str, count: int = 1) -> list[Any]:
        """The first `count` arguments of calls of a kind, once they have come."""
        with self._arrived:
            assert self._arrived.wait_for(lambda: len(self._of(kind)) >= count, LIMIT_S), self.calls
            return self._of(kind)[:count]

    def _of(self, kind: str) -> list[Any]:
        return [argument for name, argument in self.calls if name == kind]

    def _call(self, kind: str, argument: Any) -> None:
        with self._arrived:
            self.calls.append((kind, argument))
            self._arrived.notify_all()


def state(word: str, attempt: int = 1) -> Message:
    return Message("state", a_status({"state": word, "attempt": attempt}))


def log(text: str) -> Message:
    return Message("log", a_chunk({"text": text}))


def end(code: int | None = 0, outcome: str = "completed") -> Message:
    return Message("end", a_run({"exit_status": code, "outcome": outcome}))


def followed(client: ScriptedClient, choice: LogChoice | None = None) -> tuple[int, RecordingView]:
    view = RecordingView()
    return follow(cast(Client, client), "r1", view, choice or {}), view


def test_states_logs_and_the_end_in_their_order_with_the_runs_exit_code() -> None:
    client = ScriptedClient(
        [
            state("queued", 0),
            state("running"),
            log("a\n"),
            Message("notice", a_notice({"text": "n"})),
            log("b\n"),
            end(7, "failed"),
        ]
    )
    code, view = followed(client)
    assert code == 7
    assert view.calls == [
        ("state", ("queued", ())),
        ("expect", ["main.0.0", "main.1.0", "ps.0.0", "ps.0.1"]),
        ("state", ("running", ("n-1", "n-2"))),
        ("log", "a\n"),
        ("notice", "n"),
        ("log", "b\n"),
        ("end", "failed"),
    ]
    assert client.attempts_asked == 1


def test_output_that_comes_before_the_news_of_running() -> None:
    _, view = followed(ScriptedClient([log("a\n"), state("running"), end()]))
    assert [kind for kind, _ in view.calls] == ["expect", "log", "state", "end"]


def test_the_choice_of_logs_is_passed_on() -> None:
    client = ScriptedClient([end()])
    followed(client, LogChoice(role="ps", tail=3, since_s=60.0))
    assert client.followed_with == {"role": "ps", "tail": 3, "since_s": 60.0}


def test_an_interrupt_detaches() -> None:
    code, view = followed(ScriptedClient([state("running"), KeyboardInterrupt()]))
    assert code == 130
    assert view.calls[-1] == ("detached", "r1")


def test_errors_of_the_stream_are_the_callers() -> None:
    with pytest.raises(Unavailable):
        followed(ScriptedClient([Unavailable("gone")]))


def test_expected_workers_follow_the_choice() -> None:
    run = {"spec": SPEC}
    chosen = expected_workers(a_run(run), an_attempt(ATTEMPT), LogChoice(role="ps", worker=1))
    assert list(chosen) == [("ps", 0, 1)]
    assert len(list(expected_workers(a_run(run), an_attempt(ATTEMPT), LogChoice(replica=1)))) == 1


def news_of(client: ScriptedClient, view: RecordingView) -> News:
    return News(cast(Client, client), "r1", view, patience_s=0.005, report_period_s=0.005)


def test_a_silent_wait_is_explained_once_and_again_when_it_waits_again() -> None:
    view = RecordingView()
    asked = threading.Semaphore(0)
    client = ScriptedClient()
    client.report_answers = [[]]

    def why() -> Why:
        asked.release()
        return waits("busy")

    client.why_answer = why
    news = news_of(client, view)
    news.start()
    try:
        assert view.wait_for("waiting") == ["busy"]
        assert asked.acquire(timeout=LIMIT_S)
        assert not asked.acquire(timeout=0.1)  # twenty silences long
        news.note_state("queued")
        assert not asked.acquire(timeout=0.1)
        news.note_state("running")
        news.note_state("queued")
        assert view.wait_for("waiting", 2) == ["busy", "busy"]
    finally:
        news.stop()
        news.join(LIMIT_S)
    assert not news.is_alive()


def test_progress_is_shown_in_a_silence_when_it_has_moved() -> None:
    view = RecordingView()
    client = ScriptedClient()
    reports = [a_report({"step": step}) for step in (1, 2)]
    client.report_answers = [[], reports[:1], reports[:1], reports]
    news = news_of(client, view)
    news.note_state("running")
    news.start()
    try:
        assert view.wait_for("report", 2) == [1, 2]
    finally:
        news.stop()
        news.join(LIMIT_S)


def test_a_metric_that_is_not_finite_is_flagged_beside_the_output() -> None:
    """N8."""
    view = RecordingView()
    client = ScriptedClient()
    client.report_answers = [[a_report({"step": 4, "metrics": {"loss": "nan"}})]]
    news = news_of(client, view)
    news.note_state("running")
    news.start()
    try:
        assert view.wait_for("notice") == ["loss is NaN since step 4"]
    finally:
        news.stop()
        news.join(LIMIT_S)


def test_a_server_that_cannot_be_asked_does_not_end_the_news() -> None:
    view = RecordingView()
    attempts = iter([True, False])

    def why() -> Why:
        if next(attempts):
            raise Unavailable("restarting")
        return waits("after the restart")

    client = ScriptedClient()
    client.why_answer = why
    news = news_of(client, view)
    news.start()
    try:
        assert view.wait_for("waiting") == ["after the restart"]
    finally:
        news.stop()
        news.join(LIMIT_S)
