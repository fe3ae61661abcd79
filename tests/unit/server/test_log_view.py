"""What a follower is sent over several attempts and workers: all of it, in order, and the end last."""

from __future__ import annotations

from pathlib import Path
from typing import cast

import pytest

from actors import ADA
from histories import attempt_of
from served import Served
from sim_engine import Behaviour
from tarmac.api.submit_operations import SubmissionBody
from tarmac.control.admission import Submission
from tarmac.control.service import ControlPlane
from tarmac.model.abilities import Pace
from tarmac.model.codec import replace
from tarmac.model.errors import NotFound, Unavailable
from tarmac.model.lifecycle import AttemptState, RunState
from tarmac.model.progress import NativeStatus, WorkerStatus
from tarmac.model.run import Attempt, Run
from tarmac.node.attempt.document import Launch
from tarmac.node.files.masking import NO_SECRETS
from tarmac.server.http.auth import Caller
from tarmac.server.logs.log_files import BLOCK_BYTES
from tarmac.server.logs.log_view import SETUP_ROLE, LogQuery, LogView
from tarmac.server.logs.reports import reports_of
from tarmac.server.submitting.submissions import Draft, prepare
from tarmac.systems.registry import read

TWO = "name: two\nretries: 1\nsetup:\n  - prepare\ncommand: work\nreplicas: 2\n"

HOOKED = "name: two\nretries: 1\nhooks: {before_login: stage}\ncommand: work\nreplicas: 2\n"


def fails_at_first(launch: Launch) -> Behaviour:
    return Behaviour(duration_s=10, exit_code=1 if launch.number == 1 else 0)


@pytest.fixture
def plane(tmp_path: Path) -> Served:
    return Served(tmp_path, fails_at_first)


@pytest.mark.parametrize("source", [TWO, HOOKED], ids=["setup steps", "hooks alone"])
def test_every_worker_of_every_attempt_is_followed(plane: Served, source: str) -> None:
    run = _begin(plane, source)
    view = LogView(plane.plane, ADA, run, LogQuery())
    _write(plane, f"{run}.1", "first")
    seen = _drain(view)
    plane.advance(10)
    plane.advance(5)  # the pause before the retry
    _write(plane, f"{run}.2", "second")
    seen += _drain(view)
    plane.advance(10)
    seen += _drain(view)
    fields = ("attempt", "role", "replica", "text")
    logs = [tuple(getattr(data, field) for field in fields) for name, data in seen if name == "log"]
    assert sorted(logs) == [
        (1, "main", 0, "first main 0"),
        (1, "main", 1, "first main 1"),
        (1, SETUP_ROLE, 0, "first setup 0"),
        (2, "main", 0, "second main 0"),
        (2, "main", 1, "second main 1"),
        (2, SETUP_ROLE, 0, "second setup 0"),
    ]
    states = [data.state for name, data in seen if name == "state"]
    assert states[-1] == "ended"
    assert seen[-1][0] == "state", "the end is told after the last byte"
    assert view.look(survey=True).over


@pytest.mark.parametrize("times", [False, True], ids=["plain", "with times"])
def test_no_line_of_an_attempt_comes_after_the_next_attempt(plane: Served, *, times: bool) -> None:
    """Also where a log is read in several parts: by its size, or by the time that each part was written."""
    run = _begin(plane)
    for number in (1, 2):
        parts = [b"x" * BLOCK_BYTES + b"\n", b"last"]
        plane.engine.write(f"{run}.{number}", "logs/main.0.0.log", b"".join(parts))
        plane.engine.write(f"{run}.{number}", "logs/main.1.0.log", b"first\nlast")
        plane.engine.write(f"{run}.{number}", "logs/main.1.0.idx", b"1.0 6\n2.0 10\n")
        plane.advance(10)
        plane.advance(5)  # the pause before the retry
    view = LogView(plane.plane, ADA, run, LogQuery(role="main", times=times))
    order = [str(data.attempt) for name, data in _drain(view) if name == "log"]
    assert len(order) >= 6
    assert order == sorted(order)


def test_a_view_can_be_narrowed_to_one_attempt_and_then_ends_with_it(plane: Served) -> None:
    run = _begin(plane)
    _write(plane, f"{run}.1", "first")
    plane.advance(10)
    view = LogView(plane.plane, ADA, run, LogQuery(attempt=1, role="main", replica=1))
    assert [data.text for name, data in _drain(view) if name == "log"] == ["first main 1"]
    assert view.look(survey=True).over, "attempt 1 has ended, though the run goes on"


def test_places_lead_to_the_same_bytes_in_a_new_view(plane: Served) -> None:
    run = _begin(plane)
    _write(plane, f"{run}.1", "first")
    view = LogView(plane.plane, ADA, run, LogQuery())
    _drain(view)
    _write(plane, f"{run}.1", "more")
    again = LogView(plane.plane, ADA, run, LogQuery(places=view.places(), tail=1))
    texts = {data.text for name, data in _drain(again) if name == "log"}
    assert texts == {"more main 0", "more main 1", "more setup 0"}


def test_a_follower_finds_the_times_that_others_find_later(plane: Served) -> None:
    """I2: a line of a worker waits for its time, at most until its attempt has ended."""
    run = _begin(plane, TWO.replace("replicas: 2\n", ""))
    view = LogView(plane.plane, ADA, run, LogQuery(times=True, follow=True))
    attempt = plane.plane.attempts(ADA, run)[0]
    node = attempt.allocation.nodes[0]

    def lines(view: LogView) -> list[tuple[object, object]]:
        return [(data.at, data.text) for name, data in _drain(view) if name == "log"]

    plane.engine.write(attempt.id, f"logs/setup.{node}.log", b"prepared\n")
    plane.engine.write(attempt.id, "logs/main.0.0.log", b"one\n")
    assert lines(view) == [(1000000.0, "prepared\n")], "setup is followed as it comes"
    plane.engine.write(attempt.id, f"logs/setup.{node}.idx", b"1000000.25 9\n")
    plane.clock.advance(1.0)
    plane.engine.write(attempt.id, "logs/main.0.0.idx", b"1000000.5 4\n")
    assert lines(view) == [(1000000.5, "one\n")]
    plane.engine.write(attempt.id, "logs/main.0.0.log", b"two\n")
    assert lines(view) == []
    plane.advance(9)
    ended_at = plane.plane.attempts(ADA, run)[0].ended_at
    plane.clock.advance(60.0)
    assert lines(view) == [(ended_at, "two\n")]
    later = LogView(plane.plane, ADA, run, LogQuery(times=True))
    assert lines(later) == [(1000000.25, "prepared\n"), (1000000.5, "one\n"), (ended_at, "two\n")]


def test_a_tail_counts_for_what_was_there_not_for_what_comes(plane: Served) -> None:
    run = _begin(plane)
    plane.engine.write(f"{run}.1", "logs/main.0.0.log", b"1\n2\n3\n")
    view = LogView(plane.plane, ADA, run, LogQuery(tail=1, role="main", replica=0))
    assert [data.text for name, data in _drain(view) if name == "log"] == ["3\n"]
    plane.advance(10)
    plane.advance(5)  # the pause before the retry
    plane.engine.write(f"{run}.2", "logs/main.0.0.log", b"4\n5\n")
    assert [data.text for name, data in _drain(view) if name == "log"] == ["4\n5\n"]


def test_a_tail_counts_lines_over_all_attempts_of_a_worker(plane: Served) -> None:
    """I2: the most recent lines of a worker, however many attempts wrote them; each worker by itself."""
    run = _begin(plane)
    plane.engine.write(f"{run}.1", "logs/main.0.0.log", b"1\n2\n3\n")
    plane.engine.write(f"{run}.1", "logs/main.1.0.log", b"a\nb\n")
    plane.advance(10)
    plane.advance(5)  # the pause before the retry
    plane.engine.write(f"{run}.2", "logs/main.0.0.log", b"4\n5\n")

    def tails(lines: int) -> tuple[str, str]:
        view = LogView(plane.plane, ADA, run, LogQuery(tail=lines, role="main"))
        logs = [data for name, data in _drain(view) if name == "log"]
        first, second = ("".join(str(log.text) for log in logs if log.replica == at) for at in (0, 1))
        return first, second

    assert tails(1) == ("5\n", "b\n")
    assert tails(3) == ("3\n4\n5\n", "a\nb\n")
    assert tails(9) == ("1\n2\n3\n4\n5\n", "a\nb\n")
    assert tails(0) == ("", "")


def test_a_follower_that_comes_back_gets_no_older_lines_for_its_tail(plane: Served) -> None:
    run = _begin(plane)
    plane.engine.write(f"{run}.1", "logs/main.0.0.log", b"1\n2\n")
    plane.advance(10)
    plane.advance(5)  # the pause before the retry
    plane.engine.write(f"{run}.2", "logs/main.0.0.log", b"3\n4\n5\n")
    again = LogView(plane.plane, ADA, run, LogQuery(places={"2.main.0.0": 4}, tail=2, replica=0, role="main"))
    assert [data.text for name, data in _drain(again) if name == "log"] == ["5\n"]


def test_a_view_without_files_is_idle(plane: Served) -> None:
    run = plane.plane.submit([_submission(plane)])[0].run.id
    view = LogView(plane.plane, ADA, run, LogQuery())
    view.look(survey=True)
    assert view.idle


def test_files_are_looked_at_as_often_as_the_engine_allows(plane: Served) -> None:
    plane.plane.control.engines.own.pace = Pace(read_s=2.0)
    run = plane.plane.submit([_submission(plane)])[0].run.id
    view = LogView(plane.plane, ADA, run, LogQuery())
    plane.advance(1)
    view.look(survey=True)
    assert not view.idle
    assert view.period_s == 2.0


class Waits:
    """A control plane with one run, whose attempt waits on a cluster with a queue of its own."""

    def __init__(self) -> None:
        spec = read(TWO, filename="run.yaml", directory="/home/ada").spec
        self.run = Run(id="r1", spec=spec, user="ada", state=RunState.SUBMITTED, seq=1, created_at=1.0)
        self.attempt = attempt_of(self.run, state=AttemptState.SUBMITTED, node="rank-0", master_port=None)

    def find(self, *_: object) -> Run:
        return self.run

    find_here = find

    def attempts(self, *_: object) -> list[Attempt]:
        return [self.attempt]

    def workers(self, *_: object) -> tuple[WorkerStatus, ...]:
        return ()

    def notices(self, *_: object) -> tuple[()]:
        return ()

    def read_period_s(self, _attempt: str) -> float:
        return 1.0

    def read(self, _actor: object, _attempt: str, path: str, offset: int, limit: int) -> bytes:
        if path != "logs/setup.gpu-7.log":
            raise NotFound(path)
        return b"prepared\n"[offset : offset + limit]


def test_the_setup_of_an_attempt_that_waited_is_shown_once_its_nodes_have_names() -> None:
    plane = Waits()
    view = LogView(cast(ControlPlane, plane), ADA, "r1", LogQuery())
    assert not any(name == "log" for name, _ in view.look(survey=True).messages)
    plane.attempt = attempt_of(plane.run, state=AttemptState.STARTING, node="gpu-7", master_port=None)
    texts = [data.text for name, data in view.look(survey=True).messages if name == "log"]
    assert texts == ["prepared\n"]


class Away(Waits):
    """The same at work on a node; after so many reads its files cannot be reached any more."""

    def __init__(self) -> None:
        super().__init__()
        started = attempt_of(self.run, state=AttemptState.RUNNING, node="gpu-7", master_port=None)
        self.attempt = replace(started, native=NativeStatus(id="7", state="RUNNING"))
        self.away_after: int | None = None
        self.logs = {"nodes/rank-0/reports.jsonl": b'{"at": 5, "metrics": {"loss": 0.5}}\n'}

    def workers(self, *_: object) -> tuple[WorkerStatus, ...]:
        return tuple(
            WorkerStatus(
                role="main", replica=replica, index=0, node="gpu-7", log=f"logs/main.{replica}.0.log"
            )
            for replica in (0, 1)
        )

    def read(self, _actor: object, _attempt: str, path: str, offset: int, limit: int) -> bytes:
        if self.away_after is not None:
            if self.away_after == 0:
                raise Unavailable("the connection was lost")
            self.away_after -= 1
        if path not in self.logs:
            raise NotFound(path)
        return self.logs[path][offset : offset + limit]


def test_what_was_read_of_one_log_is_sent_though_another_cannot_be_read() -> None:
    plane = Away()
    plane.logs = {"logs/main.0.0.log": b"first\n"}
    view = LogView(cast(ControlPlane, plane), ADA, "r1", LogQuery())
    view.look(survey=True)
    plane.logs["logs/main.0.0.log"] += b"second\n"
    plane.away_after = 2  # the log of the setup, and the first one of a worker
    found = view.look(survey=False)
    assert [data.text for name, data in found.messages if name == "log"] == ["second\n"]
    with pytest.raises(Unavailable):
        view.look(survey=False)
    plane.away_after = None
    plane.logs["logs/main.1.0.log"] = b"other\n"
    found = view.look(survey=False)
    assert [data.text for name, data in found.messages if name == "log"] == ["other\n"]


def test_reports_are_found_by_rank_where_a_queue_gave_the_nodes_and_left_out_where_they_are_away() -> None:
    plane = Away()
    ((found,), _) = reports_of(cast(ControlPlane, plane), ADA, plane.run, NO_SECRETS)
    assert (found.node, found.metrics) == ("gpu-7", {"loss": 0.5})
    plane.away_after = 0
    assert reports_of(cast(ControlPlane, plane), ADA, plane.run, NO_SECRETS) == ([], False)


def _submission(plane: Served, source: str = TWO) -> Submission:
    return prepare(
        Draft(caller=Caller(actor=ADA, local=True), body=SubmissionBody(source=source)), plane.plane
    ).submission


def _begin(plane: Served, source: str = TWO) -> str:
    run = plane.plane.submit([_submission(plane, source)])[0].run.id
    plane.turn()
    plane.turn()
    return run


def _write(plane: Served, attempt: str, text: str) -> None:
    for replica in (0, 1):
        plane.engine.write(attempt, f"logs/main.{replica}.0.log", f"{text} main {replica}".encode())
    node = plane.plane.attempts(ADA, attempt.split(".", maxsplit=1)[0])[-1].allocation.nodes[0]
    plane.engine.write(attempt, f"logs/setup.{node}.log", f"{text} setup 0".encode())


def _drain(view: LogView) -> list[tuple[str, dict[str, object]]]:
    seen: list[tuple[str, dict[str, object]]] = []
    while True:
        look = view.look(survey=True)
        seen += look.messages
        if not look.more:
            return seen
