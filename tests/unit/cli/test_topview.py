"""The page of `tarmac top`, and the part of it that a screen shows."""

from __future__ import annotations

from tarmac.cli.commands.top import page, screen
from tarmac.cli.views.queueview import use_text, used_amounts
from tarmac.cli.views.terminal import Terminal
from tarmac.model.resources import GpuUtilization, NodeUtilization

PLAIN = Terminal()


def test_an_empty_cluster_has_a_page_too() -> None:
    assert page([], [], [], now=0.0, terminal=PLAIN) == [
        "0 of 0 slots in use on 0 nodes; 0 runs hold slots, 0 wait",
        "",
        "nothing is queued or running",
    ]


def test_a_screen_shows_as_much_as_it_has_rows_and_scrolls_no_further_than_the_end() -> None:
    lines = [f"line {number}" for number in range(10)]
    first, text = screen(lines, 0, 5, PLAIN)
    assert (first, text.count("\r\n")) == (0, 4)
    assert "line 3" in text
    assert "line 4" not in text
    assert "6 more lines below" in text
    first, text = screen(lines, 99, 5, PLAIN)
    assert first == 6
    assert "line 9" in text
    assert screen(lines, -3, 5, PLAIN)[0] == 0


def test_a_line_that_is_wider_than_the_screen_is_cut_by_it() -> None:
    """Wrapped over two rows, it would push the first line off the screen."""
    _, text = screen(["a" * 200], 0, 5, PLAIN)
    assert (text[:5], text[-5:]) == ("\x1b[?7l", "\x1b[?7h")


def test_what_a_run_uses_stands_beside_it() -> None:
    gpus = tuple(
        GpuUtilization(index=number, busy_percent=busy, used_bytes=1 << 30, total_bytes=80 << 30)
        for number, busy in enumerate((40, 60))
    )
    node = NodeUtilization(node="a", at=1.0, memory_bytes=3 << 30, cpus=1.25, gpus=gpus)
    other = NodeUtilization(node="b", at=1.0, memory_bytes=1 << 30, cpus=0.5)
    assert used_amounts([node, other]) == ("1.8", "4 GiB", "50 %", "2 GiB of 160 GiB")
    assert used_amounts([other]) == ("0.5", "1 GiB", "", "")
    assert used_amounts([]) == ("", "", "", "")
    assert use_text([node]) == "1.2 CPUs, 3 GiB of memory; 2 GPUs 50 % busy, 2 GiB of 160 GiB"
    assert use_text([other]) == "0.5 CPUs, 1 GiB of memory"
    assert use_text([]) == ""
