"""Event streams over HTTP: history, then live; every byte once, also across a break; the end last."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

import pytest

from served import HELLO, Served
from tarmac import api
from tarmac.client.follow import EventCursor, LogCursor, Message, follow, messages
from tarmac.model.errors import InvalidInput, NotFound, WaitTimeout
from tarmac.model.progress import Notice

LOG = "logs/main.0.0.log"


def test_a_follower_sees_states_output_and_the_end(plane: Served) -> None:
    client = plane.client()
    run = client.submit(HELLO)
    following = client.follow(run.id)
    assert _state(next(following)) == "queued"
    plane.turn()
    plane.turn()
    assert _state(_until(following, "state")) in ("starting", "running")
    plane.engine.write(f"{run.id}.1", LOG, b"first\n")
    chunk = _until(following, "log").data
    assert (chunk.text, chunk.offset, chunk.next) == ("first\n", 0, 6)
    plane.engine.write(f"{run.id}.1", LOG, b"second\n")
    assert _until(following, "log").data.text == "second\n"
    plane.engine.write(f"{run.id}.1", LOG, b"last words")
    plane.advance(60)
    rest = list(following)
    assert [message.event for message in rest][-2:] == ["state", "end"]
    assert "".join(message.data.text for message in rest if message.event == "log") == "last words"
    assert rest[-1].data.outcome == "completed"


def test_a_character_is_never_cut_and_a_broken_one_is_replaced(plane: Served) -> None:
    client = plane.client()
    run = _running(plane)
    following = client.follow(run)
    snowman = "☃".encode()
    plane.engine.write(f"{run}.1", LOG, b"a" + snowman[:1])
    assert _until(following, "log").data.text == "a"
    plane.engine.write(f"{run}.1", LOG, snowman[1:] + b"\xff\n")
    chunk = _until(following, "log").data
    assert (chunk.text, chunk.offset, chunk.next) == ("☃�\n", 1, 6)
    plane.engine.write(f"{run}.1", LOG, snowman[:2])
    plane.advance(60)
    last = [message.data for message in following if message.event == "log"]
    assert [(chunk.text, chunk.offset, chunk.next) for chunk in last] == [("�", 6, 8)]


def test_a_stream_resumes_where_it_broke_off(plane: Served) -> None:
    """Each byte comes exactly once to a client that names the places it has reached."""
    run = _running(plane)
    plane.engine.write(f"{run}.1", LOG, b"one\n")
    cursor = LogCursor(run, {})
    path, headers = cursor.position()
    with plane.transport().stream(path, headers=headers) as pieces:
        for message in messages(pieces):
            cursor.take(message)
            if message.event == "log":
                break
    assert cursor.position()[1] == {"Last-Event-ID": "1.main.0.0:4"}
    plane.engine.write(f"{run}.1", LOG, b"two\n")
    plane.advance(60)
    rest = list(follow(plane.transport(), cursor))
    assert [message.data.text for message in rest if message.event == "log"] == ["two\n"]
    assert list(follow(plane.transport(), cursor))[-1].event == "end"


def test_the_place_of_the_whole_stream_comes_with_each_batch(plane: Served) -> None:
    """A plain EventSource resumes with the last id it saw."""
    run = _running(plane)
    plane.engine.write(f"{run}.1", LOG, b"one\n")
    plane.advance(60)
    with plane.transport().stream(f"/runs/{run}/logs", headers={}) as pieces:
        ids = [message.id for message in messages(pieces) if message.event == "log"]
    assert ids[-1] == "1.main.0.0:4"


def test_a_place_that_is_none_is_refused(plane: Served) -> None:
    run = _running(plane)
    for place in ("x", "1.main.0:5", "1.main.0.0:-5", "1.main.0.0:five"):
        with (
            pytest.raises(InvalidInput, match="Last-Event-ID"),
            plane.transport().stream(f"/runs/{run}/logs", headers={"Last-Event-ID": place}),
        ):
            pass


def test_the_history_is_followed_to_its_end_and_resumed(plane: Served) -> None:
    client = plane.client()
    run = client.submit(HELLO).id
    following = client.follow_events(run)
    seen = [next(following), next(following)]
    plane.turn()
    plane.advance(60)
    seen += list(following)
    names = [message.data.event for message in seen[:-1]]
    assert names == ["accepted", "staged", "placed", "started", "finished"]
    assert seen[-1].event == "end"
    assert [message.id for message in seen[:-1]] == ["1", "2", "3", "4", "5"]
    resumed = list(follow(plane.transport(), EventCursor(run, after=3)))
    assert [getattr(message.data, "event", None) for message in resumed] == ["started", "finished", None]
    assert [message.event for message in follow(plane.transport(), EventCursor(run, after=5))] == ["end"]


def test_logs_so_far_can_be_narrowed(plane: Served) -> None:
    client = plane.client()
    run = _running(plane)
    attempt = f"{run}.1"
    plane.engine.write(attempt, LOG, b"one\ntwo\nthree\n")
    plane.engine.write(attempt, "logs/main.0.0.idx", b"1000000 4\n1000030 8\n")
    plane.clock.advance(40)

    def text(**query: object) -> str:
        return "".join(chunk.text for chunk in client.logs(run, **query))

    assert text() == "one\ntwo\nthree\n"
    assert text(tail=2) == "two\nthree\n"
    assert text(tail=0) == ""
    assert text(tail=99) == "one\ntwo\nthree\n"
    assert text(since_s=5) == "three\n"
    assert text(since_s=15) == "two\nthree\n", "rather a line too much than one too few"
    assert text(since_s=1000) == "one\ntwo\nthree\n"
    assert text(role="main", replica=0, worker=0, attempt=1) == "one\ntwo\nthree\n"
    with pytest.raises(InvalidInput, match="tail"):
        text(tail=-1)


def test_logs_as_a_plain_list(plane: Served) -> None:
    run = _running(plane)
    assert json.loads(plane.transport().request("GET", f"/runs/{run}/logs").body) == []
    plane.engine.write(f"{run}.1", LOG, b"x" * 100_000)
    chunks = json.loads(plane.transport().request("GET", f"/runs/{run}/logs").body)
    assert "".join(chunk["text"] for chunk in chunks) == "x" * 100_000
    assert [(chunk["offset"], chunk["next"]) for chunk in chunks] == [(0, 65536), (65536, 100_000)]


def test_notices_of_the_runner_reach_the_follower_once(plane: Served) -> None:
    client = plane.client()
    run = _running(plane)
    node = client.attempts(run)[0].nodes[0]
    notice = Notice(at=1.0, node=node, text="no mount namespace here")
    plane.engine.tell(f"{run}.1", notice)
    assert client.attempts(run)[0].notices == (notice,)
    cursor = LogCursor(run, {})
    following = follow(plane.transport(), cursor)
    assert _until(following, "notice").data == api.StreamNotice(text=notice.text, attempt=1, node=node)
    following.close()
    plane.advance(60)
    assert "notice" not in [message.event for message in follow(plane.transport(), cursor)]


def test_reports_are_collected_from_every_node(plane: Served) -> None:
    client = plane.client()
    run = _running(plane)
    node = client.attempts(run)[0].nodes[0]
    lines = b'{"at": 2.0, "step": 5, "progress": 0.5, "metrics": {"loss": 0.25}}\n{"at": 3.0}\n{"at": 4'
    plane.engine.write(f"{run}.1", f"nodes/{node}/reports.jsonl", lines)
    assert client.reports(run) == [
        api.Report(at=2.0, attempt=1, node=node, metrics={"loss": 0.25}, progress=0.5, step=5),
        api.Report(at=3.0, attempt=1, node=node, metrics={}, progress=None, step=None),
    ]


def test_a_client_is_told_that_older_reports_are_left_out(plane: Served) -> None:
    told: list[str] = []
    client = plane.client(on_notice=told.append)
    run = _running(plane)
    node = client.attempts(run)[0].nodes[0]
    lines = b"".join(
        b'{"at": 1.0, "step": %d, "metrics": {"loss": 0.125}}\n' % step for step in range(30_000)
    )
    plane.engine.write(f"{run}.1", f"nodes/{node}/reports.jsonl", lines)
    assert [report.step for report in client.reports(run, limit=2)] == [29_998, 29_999]
    assert told == []
    reports = client.reports(run)
    assert reports[0].step == 30_000 - len(reports) > 0
    assert told == ["older reports are left out; tarmac metrics RUN --csv has every number that was kept"]


def test_every_metric_that_was_reported_survives(plane: Served) -> None:
    """N8: what JSON has no number for comes as a text; so does what a program wrote by itself."""
    client = plane.client()
    run = _running(plane)
    node = client.attempts(run)[0].nodes[0]
    line = (
        b'{"at": 1.0, "progress": NaN, "metrics": {"a": "nan", "b": NaN, "c": -Infinity, "d": "cosine",'
        b' "e": true, "f": null, "g": 1e999, "h": 123456789012345678901234567890, "i": {"j": [1]}}}\n'
    )
    plane.engine.write(f"{run}.1", f"nodes/{node}/reports.jsonl", line)
    [report] = client.reports(run)
    assert report.progress is None
    assert report.metrics == {
        **{"a": "nan", "b": "nan", "c": "-inf", "d": "cosine", "e": True, "f": None, "g": "inf"},
        **{"h": "123456789012345678901234567890", "i": '{"j": [1]}'},
    }


@pytest.mark.parametrize(
    ("choice", "said"),
    [
        ({"attempt": 9}, "there is no attempt 9 of .*: it has had 1 so far"),
        ({"role": "mian"}, "there is no role 'mian' in .*did you mean main?"),
        ({"replica": 7}, "there is no replica 7 of role main: there is one, replica 0"),
        ({"worker": 1}, "there is no worker 1 of role main: a replica has one, worker 0"),
    ],
)
def test_logs_of_what_a_run_does_not_have_are_an_error(
    plane: Served, choice: dict[str, Any], said: str
) -> None:
    """N3: an empty answer would say that the worker wrote nothing."""
    run = _running(plane)
    with pytest.raises(NotFound) as refused:
        list(plane.client().logs(run, **choice))
    assert re.search(said, f"{refused.value} {refused.value.hint}")
    with pytest.raises(NotFound):
        next(plane.client().follow(run, **choice))


def test_a_follower_of_nothing_is_told(plane: Served) -> None:
    with pytest.raises(NotFound):
        next(plane.client().follow("nothing"))


def test_a_server_that_stops_says_so_to_its_followers(plane: Served) -> None:
    run = _running(plane)
    with plane.transport().stream(f"/runs/{run}/logs", headers={}) as pieces:
        stream = messages(pieces)
        assert next(stream).event == "state"
        plane.client().stop_server()
        assert [message.event for message in stream][-1] == "stopping"
    assert plane.stops.is_set()


def test_waiting_has_a_limit(plane: Served) -> None:
    client = plane.client()
    run = client.submit(HELLO)
    with pytest.raises(TimeoutError, match="is still queued after") as late:
        client.wait(run.id, timeout_s=0.05)
    assert isinstance(late.value, WaitTimeout)
    assert late.value.run.state == "queued"


def _running(plane: Served) -> str:
    run = plane.client().submit(HELLO).id
    plane.turn()
    plane.turn()
    assert plane.client().run(run).state == "running"
    return run


def _until(stream: Iterator[Message], event: str) -> Message:
    return next(message for message in stream if message.event == event)


def _state(message: Message) -> str:
    assert message.event == "state"
    return str(message.data.state)
