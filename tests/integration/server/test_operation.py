"""`/healthz` and `/metrics`: what those see who watch a server."""

from __future__ import annotations

import http.client
import json
import re
from types import SimpleNamespace
from typing import Any

import pytest

import tarmac
from served import HELLO, Served
from tarmac.model.errors import Unavailable
from tarmac.server.exposition import Kind, Metric, Sample, rendered
from tarmac.server.operation import failures

_NAME = r"[a-zA-Z_:][a-zA-Z0-9_:]*"
_SAMPLE = re.compile(rf"({_NAME})(?:\{{(.*)\}})? (-?[0-9.e+-]+|NaN|[+-]Inf)")
_LABEL = re.compile(r'([a-zA-Z_][a-zA-Z0-9_]*)="((?:[^"\\\n]|\\["\\n])*)"(?:,|$)')
_ESCAPES = {'\\"': '"', "\\\\": "\\", "\\n": "\n"}

Values = dict[tuple[str, tuple[tuple[str, str], ...]], float]


def parsed(text: str) -> Values:
    """The values in the text format, version 0.0.4, which is taken by the letter."""
    assert text.endswith("\n")
    values: Values = {}
    kinds: dict[str, str] = {}
    helped = None
    for line in text.splitlines():
        if found := re.fullmatch(rf"# HELP ({_NAME}) .+", line):
            assert found[1] not in kinds, "a metric comes once"
            helped = found[1]
        elif found := re.fullmatch(rf"# TYPE ({_NAME}) (counter|gauge|histogram)", line):
            assert found[1] == helped
            kinds[found[1]] = found[2]
        else:
            sample = _SAMPLE.fullmatch(line)
            assert sample is not None, line
            family = (
                re.sub(r"_(bucket|sum|count)$", "", sample[1])
                if kinds[str(helped)] == "histogram"
                else sample[1]
            )
            assert family == helped, "samples follow their head"
            key = sample[1], labels(sample[2] or "")
            assert key not in values
            values[key] = float(sample[3])
    return values


def labels(text: str) -> tuple[tuple[str, str], ...]:
    found, at = [], 0
    while at < len(text):
        label = _LABEL.match(text, at)
        assert label is not None, text
        found.append((label[1], re.sub(r"\\.", lambda pair: _ESCAPES[pair[0]], label[2])))
        at = label.end()
    return tuple(found)


def ask(plane: Served, path: str) -> tuple[int, str, str]:
    connection = http.client.HTTPConnection("127.0.0.1", plane.tcp_port, timeout=120)
    plane.closing.callback(connection.close)
    connection.request("GET", path)
    answer = connection.getresponse()
    return answer.status, answer.headers["content-type"], answer.read().decode()


def numbers(plane: Served) -> Values:
    status, kind, text = ask(plane, "/metrics")
    assert (status, kind) == (200, "text/plain; version=0.0.4; charset=utf-8")
    return parsed(text)


def test_the_numbers_follow_runs(plane: Served) -> None:
    client = plane.client()
    before = numbers(plane)
    assert before["tarmac_info", (("version", tarmac.__version__),)] == 1
    assert before["tarmac_runs", (("state", "running"),)] == 0
    place = (("cluster", "local"), ("pool", "default"))
    assert (before["tarmac_slots_used", place], before["tarmac_slots_free", place]) == (0, 8)
    client.submit(HELLO)
    assert numbers(plane)["tarmac_queue_length", (("cluster", ""), ("pool", ""))] == 1
    plane.turn()
    plane.turn()
    running = numbers(plane)
    assert running["tarmac_runs", (("state", "running"),)] == 1
    assert running["tarmac_attempts_started_total", ()] == 1
    assert running["tarmac_slots_used", place] + running["tarmac_slots_free", place] == 8
    plane.advance(60)
    ended = numbers(plane)
    for name in ("tarmac_attempts_ended_total", "tarmac_runs_ended_total"):
        assert ended[name, (("outcome", "completed"),)] == 1
    assert ended["tarmac_http_requests_total", (("method", "POST"), ("code", "201"))] == 1
    assert ended["tarmac_engine_call_failures_total", (("cluster", "local"),)] == 0


def test_cycles_are_a_histogram(plane: Served) -> None:
    for seconds in (0.0004, 0.02, 0.02, 30.0):
        plane.plane.control.tallies.note_cycle(seconds)
    found = numbers(plane)
    name = "tarmac_scheduling_cycle_seconds"
    buckets = [found[f"{name}_bucket", (("le", bound),)] for bound in ("0.001", "0.05", "5.0", "+Inf")]
    assert buckets == [1, 3, 3, 4]
    assert found[f"{name}_count", ()] == 4
    assert found[f"{name}_sum", ()] == pytest.approx(30.0404)


def test_whatever_a_label_says_is_one_value() -> None:
    hostile = 'a"b\\c\nd'
    text = rendered(
        [Metric("m", Kind.GAUGE, "a\nb", (Sample(0.25, {"pool": hostile}), Sample(2.0, {"pool": "x"})))]
    )
    assert parsed(text) == {("m", (("pool", hostile),)): 0.25, ("m", (("pool", "x"),)): 2.0}


class BrokenStore:
    """A database that does not answer."""

    def last_event_id(self) -> int:
        raise Unavailable("the disk is gone")


def test_a_server_that_works_is_healthy_and_one_that_does_not_says_why(plane: Served) -> None:
    status, _, text = ask(plane, "/healthz")
    assert (status, json.loads(text)) == (200, {"healthy": True, "reasons": []})
    plane.loop_trouble.append("the loop schedule has ended")
    status, _, text = ask(plane, "/healthz")
    assert (status, json.loads(text)["reasons"]) == (503, ["the loop schedule has ended"])


def test_a_database_that_does_not_answer_is_a_reason() -> None:
    plane: Any = SimpleNamespace(control=SimpleNamespace(store=BrokenStore()))
    service: Any = SimpleNamespace(plane=plane, loop_trouble=tuple)
    assert failures(service) == ["the database does not answer: the disk is gone"]
