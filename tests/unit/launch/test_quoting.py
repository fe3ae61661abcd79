"""What is printed can be pasted into bash and means the same. bash itself is the judge."""

from __future__ import annotations

import subprocess

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from examples import examples
from tarmac.launch import quoting

HOSTILE = [
    "",
    "plain",
    "a b",
    "it's",
    '"double"',
    "$HOME `id` $(id)",
    "a;rm -rf /",
    "line one\n#SBATCH --partition=other",
    "\x1b[2J\x1b]0;title\x07",
    "tab\tand\rreturn",
    "\\backslash\\",
    "'\n'",
    "\x7f9",
    "\x019",
    "!history",
    "~ada",
    "ext::sh -c id",
    "-oProxyCommand=id",
    "é ü 漢字 🚀",
    "\u202eright to left",
    "*?[a]{b,c}",
    "\udcff",
]


def words(line: str) -> list[bytes]:
    """What bash makes of a command line's words."""
    script = f"printf '%s\\0' {line}"
    done = subprocess.run(
        ["bash", "-c", script.encode("utf-8", "surrogateescape")], capture_output=True, check=True
    )
    return done.stdout.split(b"\0")[:-1]


@pytest.mark.parametrize("word", HOSTILE, ids=repr)
def test_bash_reads_a_hostile_word_as_it_is(word: str) -> None:
    assert words(quoting.quote(word)) == [word.encode("utf-8", "surrogateescape")]


@settings(max_examples=examples(40))
@given(st.lists(st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"])), min_size=1))
def test_bash_reads_any_command_line_as_it_is(argv: list[str]) -> None:
    assert words(quoting.join(argv)) == [word.encode() for word in argv]


@given(st.text())
def test_nothing_printed_can_draw_on_the_terminal(word: str) -> None:
    assert quoting.quote(word).isprintable()


def test_the_forms() -> None:
    assert quoting.join(["python", "train.py", "--lr=0.1"]) == "python train.py --lr=0.1"
    assert quoting.quote("a b") == "'a b'"
    assert quoting.quote("it's") == "'it'\\''s'"
    assert quoting.quote("one\ntwo\x1b[0m") == "$'one\\ntwo\\e[0m'"
    assert quoting.assignment("A", "b c") == "A='b c'"
