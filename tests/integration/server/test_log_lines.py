"""Windows of a log over HTTP: from the end, before, after and around a byte, filtered, masked and bounded."""

from __future__ import annotations

import json
from typing import Any
from urllib.parse import urlencode

import pytest
from msgspec import to_builtins

from served import OWNER, Served
from tarmac.api.history_operations import LogLinesQuery
from tarmac.model.actor import Actor
from tarmac.model.errors import NotFound
from tarmac.server.logs.log_lines import RunLogs, WindowLimits

LOG = "logs/main.0.0.log"


def test_i2_the_last_hundred_lines_come_first_and_older_ones_before_them(plane: Served) -> None:
    run = running(plane, "".join(f"line {number}\n" for number in range(350)).encode())
    window = ask(plane, run)
    assert texts(window) == [f"line {number}" for number in range(250, 350)]
    assert (window["next"], window["length"], window["rank"]) == (window["length"], 3040, None)
    older = ask(plane, run, before=window["start"])
    assert texts(older) == [f"line {number}" for number in range(150, 250)]
    assert older["next"] == window["start"]
    first = ask(plane, run, before=older["start"], lines=1000)
    assert (texts(first)[0], first["start"], len(texts(first))) == ("line 0", 0, 150)


def test_new_lines_come_after_the_last_complete_one(plane: Served) -> None:
    run = running(plane, b"one\ntwo\n 10%\r 20%")
    window = ask(plane, run)
    assert texts(window) == ["one", "two", " 20%"]
    assert (window["next"], window["length"]) == (8, 17)
    plane.engine.write(f"{run}.1", LOG, b"\r100%\r\nthree\n")
    window = ask(plane, run, after=8)
    assert [(line["offset"], line["text"]) for line in window["lines"]] == [(8, "100%"), (24, "three")]
    assert window["next"] == window["length"] == 30
    assert texts(ask(plane, run, after=30)) == []
    plane.engine.write(f"{run}.1", LOG, b"last words")
    plane.advance(60)
    window = ask(plane, run, after=30)
    assert (texts(window), window["next"]) == (["last words"], 40)


def test_a_place_inside_a_line_shows_that_line_first(plane: Served) -> None:
    run = running(plane, b"zero\none\ntwo\n")
    assert texts(ask(plane, run, at=6)) == ["one", "two"]
    assert texts(ask(plane, run, at=0, lines=1)) == ["zero"]
    assert texts(ask(plane, run, at=999)) == []


def test_a_filter_continues_where_it_ended(plane: Served) -> None:
    """A request reads for a bounded time, here one step."""
    logs = RunLogs(plane.plane, plane.secrets.mask, limits=WindowLimits(region_bytes=1000, search_s=0.0))
    lines = [f"{number:04} {'Needle' if number % 100 == 50 else 'hay'}\n" for number in range(500)]
    run = running(plane, "".join(lines).encode())
    length = len("".join(lines))
    found: list[str] = []
    before, requests = length, 0
    while before > 0:
        window = ask_directly(logs, run, before=before, text="nEEdle")
        assert window["next"] == before or requests == 0
        found = texts(window) + found
        before, requests = window["start"], requests + 1
    assert found == ["0050 Needle", "0150 Needle", "0250 Needle", "0350 Needle", "0450 Needle"]
    assert requests > 3
    after, forward = 0, list[str]()
    while after < length:
        window = ask_directly(logs, run, after=after, text="needle", lines=1)
        forward += texts(window)
        after = window["next"]
    assert forward == found


def test_errors_are_lines_of_programs_that_fail_and_not_their_metrics(plane: Served) -> None:
    run = running(
        plane,
        b"val_error=0.25 error_rate 0.1\n[ERROR] disk full\nTraceback (most recent call last):\n  File x\n"
        b"ValueError: no\n0 errors\nCUDA out of memory\nkilled time\nE0 fatal: gone\n",
    )
    assert texts(ask(plane, run, errors="true")) == [
        *("[ERROR] disk full", "Traceback (most recent call last):", "ValueError: no"),
        *("CUDA out of memory", "killed time", "E0 fatal: gone"),
    ]
    assert texts(ask(plane, run, errors="true", text="disk")) == ["[ERROR] disk full"]


def test_a_half_written_error_is_found_once_it_is_complete(plane: Served) -> None:
    run = running(plane, b"fine\nValueErr")
    window = ask(plane, run, errors="true")
    assert (texts(window), window["next"]) == ([], 5)
    plane.engine.write(f"{run}.1", LOG, b"or: no\n")
    assert texts(ask(plane, run, errors="true", after=5)) == ["ValueError: no"]


def test_secrets_are_hidden_and_cannot_be_searched_for(plane: Served) -> None:
    client = plane.client()
    text = "name: inline\nenv: {WANDB_API_KEY: plain-key-1, LR: 0.1}\ncommand: echo\n"
    run = client.submit(text).id
    plane.turn()
    plane.turn()
    plane.engine.write(f"{run}.1", LOG, b"using plain-key-1 now\nplain-\n-----BEGIN PRIVATE KEY-----\nABC\n")
    plane.engine.write(f"{run}.1", LOG, b"DEF\n-----END PRIVATE KEY-----\nplain-key")
    assert texts(ask(plane, run))[0] == "using *** now"
    assert "ABC" not in json.dumps(ask(plane, run, before=ask(plane, run)["start"] + 65, lines=2))
    assert texts(ask(plane, run))[-1] in ("", "***"), "the beginning of a secret is held back"
    assert texts(ask(plane, run, text="plain-key")) == []
    assert texts(ask(plane, run, text="ABC")) == []
    assert texts(ask(plane, run, text="using")) == ["using *** now"]


def test_a_gap_is_one_line_in_both_directions(plane: Served) -> None:
    run = running(plane, b"begin\n" + b"\0" * 5000 + b"end\n")
    plane.engine.write(f"{run}.1", "logs/main.0.0.cut", b'{"begin": 6, "end": 5006}')
    note = "[tarmac: 5,000 bytes of this log are left out: it was too long]"
    assert texts(ask(plane, run)) == ["begin", note, "end"]
    assert texts(ask(plane, run, at=0)) == ["begin", note, "end"]
    assert texts(ask(plane, run, after=6, lines=1)) == [note]


def test_a_line_without_end_is_cut(plane: Served) -> None:
    run = running(plane, b"x" * 300_000 + b"\n")
    (first, *_rest) = texts(ask(plane, run, at=0))
    assert len(first) < 9000
    assert "characters]" in first


def test_times_come_from_the_index(plane: Served) -> None:
    run = running(plane, b"one\ntwo\n")
    plane.engine.write(f"{run}.1", "logs/main.0.0.idx", b"100.0 4\n200.0 8\n")
    assert [line["at"] for line in ask(plane, run, times="true")["lines"]] == [100.0, 200.0]


def test_all_of_a_log_as_text(plane: Served) -> None:
    run = running(plane, b"one\ntwo")
    plane.advance(60)
    answer = plane.transport().request("GET", f"/runs/{run}/log-text?worker=0")
    assert answer.body == b"one\ntwo"


def test_a_run_without_output_says_so(plane: Served) -> None:
    run = plane.client().submit("name: hello\ncommand: echo\n").id
    with pytest.raises(NotFound, match="no log yet"):
        ask(plane, run)
    plane.turn()
    plane.turn()
    with pytest.raises(NotFound, match="no role 'other'"):
        ask(plane, run, role="other")


def running(plane: Served, output: bytes) -> str:
    run = plane.client().submit("name: hello\ncommand: echo hello\n").id
    plane.turn()
    plane.turn()
    plane.engine.write(f"{run}.1", LOG, output)
    return run


def ask(plane: Served, run: str, **query: object) -> Any:
    answer = plane.transport().request("GET", f"/runs/{run}/log-lines?{urlencode(query)}")
    return json.loads(answer.body)


def ask_directly(logs: RunLogs, run: str, **query: Any) -> Any:
    """The same without HTTP."""
    return to_builtins(logs.window(Actor(user=OWNER), run, LogLinesQuery(**query)))


def texts(window: Any) -> list[str]:
    return [line["text"] for line in window["lines"]]
