"""What reaches stdout of the workers' output."""

from __future__ import annotations

import io
import re
import signal
from typing import Any

import pytest
from click.testing import CliRunner

from answers import a_chunk, a_worker
from tarmac.cli.commands.logs import logs
from tarmac.cli.views.logview import LineRule, LogView
from tarmac.cli.views.terminal import Terminal
from tarmac.model.errors import InvalidInput


def chunk(text: str, *, replica: int = 0, worker: int = 0, role: str = "main") -> dict[str, Any]:
    return {"role": role, "replica": replica, "worker": worker, "text": text}


def worker(replica: int, index: int = 0, role: str = "main") -> dict[str, Any]:
    return {"role": role, "replica": replica, "index": index}


def view(*, colour: bool = False) -> tuple[LogView, io.StringIO]:
    out = io.StringIO()
    return LogView(out, Terminal(colour=colour)), out


def test_a_single_worker_is_passed_on_as_it_is() -> None:
    logs, out = view()
    logs.expect([a_worker(worker(0))])
    logs.write(a_chunk(chunk("10%\r20%")))
    assert out.getvalue() == "10%\r20%"
    assert not logs.at_line_start
    logs.write(a_chunk(chunk("\x1b[1mdone\x1b[0m\n")))
    assert out.getvalue() == "10%\r20%\x1b[1mdone\x1b[0m\n"
    assert logs.at_line_start


def test_several_workers_have_prefixes_and_never_share_a_line() -> None:
    logs, out = view()
    logs.expect([a_worker(worker(0)), a_worker(worker(1))])
    logs.write(a_chunk(chunk("epoch ")))
    logs.write(a_chunk(chunk("other\n", replica=1)))
    logs.write(a_chunk(chunk("1\nepoch")))
    assert out.getvalue() == "main.1| other\nmain.0| epoch 1\n"
    logs.finish()
    assert out.getvalue() == "main.1| other\nmain.0| epoch 1\nmain.0| epoch\n"


def test_the_worker_number_shows_where_a_replica_has_several() -> None:
    logs, out = view()
    logs.expect([a_worker(worker(0)), a_worker(worker(0, 1)), a_worker(worker(0, 0, "ps"))])
    logs.write(a_chunk(chunk("a\n", worker=1)))
    logs.write(a_chunk(chunk("b\n", role="ps")))
    assert out.getvalue() == "main.0.1| a\nps.0.0  | b\n"


def test_of_a_progress_bar_the_last_form_of_a_line_stays() -> None:
    logs, out = view()
    logs.expect([a_worker(worker(0)), a_worker(worker(1))])
    logs.write(a_chunk(chunk("10%\r20%\r")))
    logs.write(a_chunk(chunk("30%\nwindows\r\n")))
    assert out.getvalue() == "main.0| 30%\nmain.0| windows\n"


def test_colours_belong_to_workers_in_their_order() -> None:
    logs, out = view(colour=True)
    logs.expect([a_worker(worker(1)), a_worker(worker(0))])
    logs.write(a_chunk(chunk("b\n", replica=1)))
    logs.write(a_chunk(chunk("a\n")))
    assert out.getvalue() == "\x1b[33mmain.1| \x1b[0mb\n\x1b[36mmain.0| \x1b[0ma\n"


def test_a_worker_nobody_expected_gets_a_prefix_too() -> None:
    logs, out = view()
    logs.expect([a_worker(worker(0)), a_worker(worker(1))])
    logs.write(a_chunk(chunk("late\n", replica=2)))
    assert out.getvalue() == "main.2| late\n"


def test_a_pattern_that_takes_for_ever_ends_with_an_error() -> None:
    """The text is a run's own: one line of thirty characters would hold the command for years."""
    shown = LogView(io.StringIO(), Terminal(), rule=LineRule(pattern=re.compile("(a+)+$")))
    shown.write(a_chunk(chunk("aaaa\n")))
    before = signal.getsignal(signal.SIGVTALRM)
    with pytest.raises(InvalidInput, match=r"'\(a\+\)\+\$' takes more than 1 s for a piece of the log"):
        shown.write(a_chunk(chunk("a" * 60 + "!\n")))
    assert signal.getsignal(signal.SIGVTALRM) is before
    assert signal.getitimer(signal.ITIMER_VIRTUAL) == (0.0, 0.0)


@pytest.mark.parametrize("pattern", ["(", "a{99999999999999999999}", "(" * 9000 + ")" * 9000])
def test_what_is_no_pattern_is_refused(pattern: str) -> None:
    found = CliRunner().invoke(logs, ["run", "--grep", pattern])
    assert found.exit_code == 2
    assert "is no regular expression" in found.stderr


def test_only_lines_with_the_pattern_are_shown_whatever_their_colour() -> None:
    out = io.StringIO()
    shown = LogView(out, Terminal(), rule=LineRule(pattern=re.compile("^loss")))
    shown.write(a_chunk(chunk("\x1b[32mloss 1\x1b[0m\nstep 1\nlo")))
    shown.write(a_chunk(chunk("ss 2\nstep")))
    shown.finish()
    assert out.getvalue() == "\x1b[32mloss 1\x1b[0m\nloss 2\n"


def test_lines_begin_with_their_time_and_the_name_of_their_worker() -> None:
    out = io.StringIO()
    shown = LogView(out, Terminal(), rule=LineRule(timestamps=True))
    shown.write(a_chunk({**chunk("one\n"), "at": 0.0}))
    shown.expect([a_worker(worker(0)), a_worker(worker(1))])
    shown.write(a_chunk({**chunk("two\n", replica=1), "at": 90.0}))
    first, second = out.getvalue().splitlines()
    day = r"\d{4}-\d\d-\d\d \d\d:"
    assert re.fullmatch(day + r"\d\d:00 one", first)
    assert re.fullmatch(day + r"\d\d:30 main\.1\| two", second)


def test_empty_lines_stay() -> None:
    logs, out = view()
    logs.expect([a_worker(worker(0)), a_worker(worker(1))])
    logs.write(a_chunk(chunk("a\n\nb\n")))
    assert out.getvalue() == "main.0| a\nmain.0| \nmain.0| b\n"


def test_an_open_line_stays_open_however_often_workers_are_expected() -> None:
    """The follower says with every block which workers there are: nothing new must not end a line."""
    logs, out = view()
    for piece in ("one ", "li", "ne\n"):
        logs.expect([])
        logs.expect([a_worker(worker(0)), a_worker(worker(1))])
        logs.write(a_chunk(chunk(piece)))
        logs.write(a_chunk(chunk(piece, replica=1)))
    assert out.getvalue() == "main.0| one line\nmain.1| one line\n"


def test_no_line_is_torn_at_the_end_of_a_block() -> None:
    logs, out = view()
    logs.expect([a_worker(worker(0)), a_worker(worker(1)), a_worker(worker(2))])
    text = "".join(f"{number:06d} of the lines of one worker\n" for number in range(300))
    for start in range(0, len(text), 97):
        for replica in range(3):
            logs.expect([])
            logs.write(a_chunk(chunk(text[start : start + 97], replica=replica)))
    lines = out.getvalue().splitlines()
    assert len(lines) == 900
    for replica in range(3):
        assert "".join(f"{line[8:]}\n" for line in lines if line.startswith(f"main.{replica}| ")) == text


def test_what_one_attempt_left_open_the_next_does_not_go_on_with() -> None:
    logs, out = view()
    logs.expect([a_worker(worker(0)), a_worker(worker(1))])
    logs.write(a_chunk(chunk("cut o") | {"attempt": 1}))
    logs.write(a_chunk(chunk("begin\n") | {"attempt": 2}))
    assert out.getvalue() == "main.0| cut o\nmain.0| begin\n"


HOSTILE = [
    ("\x1b]0;title\x07", "␛]0;title␇"),
    ("\x1b]52;c;Y3VybA==\x1b\\", "␛]52;c;Y3VybA==␛\\"),
    ("\x1b[2J\x1b[H", "␛[2J␛[H"),
    ("\x1b[6n\x1bP+q\x1b\\", "␛[6n␛P+q␛\\"),
    ("\x9b31m\x9d0;t\x9c", "�31m�0;t�"),
    ("user\u202enimda", "user�nimda"),
    ("\x1b[31mred\x1b[0m", "\x1b[31mred\x1b[0m"),
]


@pytest.mark.parametrize(("text", "shown"), HOSTILE)
def test_a_terminal_is_shown_what_it_would_obey(text: str, shown: str) -> None:
    for step in (1, 2, 1000):
        out = io.StringIO()
        logs = LogView(out, Terminal(width=80))
        for start in range(0, len(text), step):
            logs.write(a_chunk(chunk(text[start : start + step])))
        logs.finish()
        assert out.getvalue() == shown
    out = io.StringIO()
    several = LogView(out, Terminal(width=80))
    several.expect([a_worker(worker(0)), a_worker(worker(1))])
    several.write(a_chunk(chunk(f"{text}\n")))
    ends = re.compile(r"(\x1b\[0m)*\n?\Z")
    assert ends.sub("", out.getvalue()) == f"main.0| {ends.sub('', shown)}"


def test_a_progress_bar_of_one_worker_still_moves() -> None:
    out = io.StringIO()
    LogView(out, Terminal(width=80)).write(a_chunk(chunk("10%\r20%\x1b[K\x1b[A\b")))
    assert out.getvalue() == "10%\r20%\x1b[K\x1b[A\b"


@pytest.mark.parametrize(("text", "_shown"), HOSTILE)
def test_a_pipe_and_whoever_wants_it_raw_gets_every_byte(text: str, _shown: str) -> None:
    for terminal, raw in ((Terminal(), False), (Terminal(width=80), True)):
        out = io.StringIO()
        LogView(out, terminal, raw=raw).write(a_chunk(chunk(text)))
        assert out.getvalue() == text
