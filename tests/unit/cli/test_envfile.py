"""Files of variables: the dotenv syntax, and what is wrong with its line but never its content."""

from __future__ import annotations

from pathlib import Path

import pytest

from tarmac.cli.overriding import read_env_file
from tarmac.cli.views.errors import render_error
from tarmac.cli.views.terminal import Terminal
from tarmac.model.errors import InvalidInput


def read(tmp_path: Path, text: str, **environment: str) -> dict[str, str]:
    file = tmp_path / "some.env"
    file.write_text(text)
    return read_env_file(str(file), environment)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("A=1", "1"),
        ("export A=1", "1"),
        ("  A = 1  ", "1"),
        ("A=", ""),
        ("A= # nothing", ""),
        ("A=b c # note", "b c"),
        ("A=b#c", "b#c"),
        ("A=$HOME/x", "$HOME/x"),
        ("A='b # \\n c' # note", "b # \\n c"),
        ('A="b\\tc\\"d\\\\"', 'b\tc"d\\'),
        ('A="one\ntwo"', "one\ntwo"),
        ("A=1\r\n", "1"),
        ("A=1\nA=2", "2"),
        ("A=b=c", "b=c"),
        ("A=it's", "it's"),
    ],
)
def test_values(tmp_path: Path, text: str, value: str) -> None:
    assert read(tmp_path, f"# a comment\n\n{text}\nB=after\n") == {"A": value, "B": "after"}


def test_a_name_alone_copies_its_value(tmp_path: Path) -> None:
    assert read(tmp_path, "TOKEN\n", TOKEN="here") == {"TOKEN": "here"}


def test_all_that_is_wrong_is_said_by_line_and_without_content(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput) as refusal:
        read(tmp_path, "A=1\n1B=hunter2\nNAME with hunter2\nGONE\nC='hunter2' hunter2\nD=\"hunter2\n")
    text = render_error(refusal.value, Terminal())
    file = tmp_path / "some.env"
    assert [line for line in text.splitlines() if line.startswith("error")] == [
        f"error: {file}:2: this is not of the form NAME=VALUE",
        f"error: {file}:3: there is no = after NAME",
        f"error: {file}:4: GONE is not set here, so there is no value to copy",
        f"error: {file}:5: there is more after the quoted value of C",
        f'error: {file}:6: the value of D begins with " and does not end',
    ]
    assert "hunter2" not in text


def test_a_file_that_is_not_there_is_answered_with_the_nearest(tmp_path: Path) -> None:
    (tmp_path / "prod.env").touch()
    with pytest.raises(InvalidInput, match="no such file") as refusal:
        read_env_file(str(tmp_path / "prd.env"), {})
    assert "prod.env" in str(refusal.value.hint)
