"""What reaches stdout of the workers' output."""

from __future__ import annotations

import io
from typing import Any

from tarmac.cli.logview import LogView
from tarmac.cli.terminal import Terminal


def chunk(text: str, *, replica: int = 0, worker: int = 0, role: str = "main") -> dict[str, Any]:
    return {"role": role, "replica": replica, "worker": worker, "text": text}


def worker(replica: int, index: int = 0, role: str = "main") -> dict[str, Any]:
    return {"role": role, "replica": replica, "index": index}


def view(*, colour: bool = False) -> tuple[LogView, io.StringIO]:
    out = io.StringIO()
    return LogView(out, Terminal(colour=colour)), out


def test_a_single_worker_is_passed_on_as_it_is() -> None:
    logs, out = view()
    logs.expect([worker(0)])
    logs.write(chunk("10%\r20%"))
    assert out.getvalue() == "10%\r20%"
    assert not logs.at_line_start
    logs.write(chunk("\x1b[1mdone\x1b[0m\n"))
    assert out.getvalue() == "10%\r20%\x1b[1mdone\x1b[0m\n"
    assert logs.at_line_start


def test_several_workers_have_prefixes_and_never_share_a_line() -> None:
    logs, out = view()
    logs.expect([worker(0), worker(1)])
    logs.write(chunk("epoch "))
    logs.write(chunk("other\n", replica=1))
    logs.write(chunk("1\nepoch"))
    assert out.getvalue() == "main.1| other\nmain.0| epoch 1\n"
    logs.finish()
    assert out.getvalue() == "main.1| other\nmain.0| epoch 1\nmain.0| epoch\n"


def test_the_worker_number_shows_where_a_replica_has_several() -> None:
    logs, out = view()
    logs.expect([worker(0), worker(0, 1), worker(0, 0, "ps")])
    logs.write(chunk("a\n", worker=1))
    logs.write(chunk("b\n", role="ps"))
    assert out.getvalue() == "main.0.1| a\nps.0.0  | b\n"


def test_of_a_progress_bar_the_last_form_of_a_line_stays() -> None:
    logs, out = view()
    logs.expect([worker(0), worker(1)])
    logs.write(chunk("10%\r20%\r"))
    logs.write(chunk("30%\nwindows\r\n"))
    assert out.getvalue() == "main.0| 30%\nmain.0| windows\n"


def test_colours_belong_to_workers_in_their_order() -> None:
    logs, out = view(colour=True)
    logs.expect([worker(1), worker(0)])
    logs.write(chunk("b\n", replica=1))
    logs.write(chunk("a\n"))
    assert out.getvalue() == "\x1b[33mmain.1| \x1b[0mb\n\x1b[36mmain.0| \x1b[0ma\n"


def test_a_worker_nobody_expected_gets_a_prefix_too() -> None:
    logs, out = view()
    logs.expect([worker(0), worker(1)])
    logs.write(chunk("late\n", replica=2))
    assert out.getvalue() == "main.2| late\n"


def test_empty_lines_stay() -> None:
    logs, out = view()
    logs.expect([worker(0), worker(1)])
    logs.write(chunk("a\n\nb\n"))
    assert out.getvalue() == "main.0| a\nmain.0| \nmain.0| b\n"
