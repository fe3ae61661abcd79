"""Settings: what a file may say, how wrong ones are refused, and docs/settings.md in step with the code."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

import pytest

from tarmac.model.errors import InvalidInput
from tarmac.server.settings import LOCAL_NODES, TABLES, Setting, Settings, read_settings

PAGE = Path(__file__).parents[3] / "docs" / "settings.md"
TYPE_NAMES = {str: "text", int: "whole number", float: "number", list: "list"}


def test_without_a_file_there_are_defaults(tmp_path: Path) -> None:
    assert read_settings(tmp_path / "settings.toml") == Settings()


def test_a_whole_file(tmp_path: Path) -> None:
    settings = _read(
        tmp_path,
        '[database]\nurl = "sqlite:////x"\n[server]\nlisten = "127.0.0.1:1"\n[list]\nended_days = 3\n'
        '[[local]]\nnodes = 2\nslots = 4\nslot_type = "h100"\npool = "p"\nshard = "s"\n'
        'hostnames = ["a", "b"]\n'
        "[[local]]\nslots = 1\n",
    )
    assert (settings.database_url, settings.listen, settings.ended_days) == (
        "sqlite:////x",
        "127.0.0.1:1",
        3.0,
    )
    big, small = settings.local
    assert (big.nodes, big.slots, big.slot_type, big.pool, big.shard, big.hostnames) == (
        2,
        4,
        "h100",
        "p",
        "s",
        ("a", "b"),
    )
    assert (small.nodes, small.slots, small.hostnames) == (1, 1, ())


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[databse]\nurl = 'x'\n", "databse is no setting (did you mean database?)"),
        ("[database]\nrul = 'x'\n", "database.rul is no setting (did you mean database.url?)"),
        ("[server]\nlisten = 8400\n", "server.listen: text is expected, not 8400"),
        ("[list]\nended_days = -1\n", "list.ended_days: at least 0 is expected, not -1.0"),
        ("[list]\nended_days = true\n", "list.ended_days: a number is expected, not True"),
        ("list = 3\n", "list: a table is expected, not 3"),
        ("[local]\nslots = 1\n", "local: write [[local]]"),
        ("[[local]]\nnodes = 1\n", "local[0].slots is missing"),
        ("[[local]]\nslots = 1\nhostnames = [1]\n", "local[0].hostnames: a list of names is expected"),
        ("[[local]]\nslots = 1\nnodes = 0\n", "local[0].nodes: at least 1 is expected, not 0"),
        ("[server\n", "it is not TOML"),
    ],
)
def test_what_is_wrong_is_said_with_the_file(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        _read(tmp_path, text)
    assert message in str(refused.value)
    assert refused.value.problems[0].file == str(tmp_path / "settings.toml")


def test_all_problems_are_said_at_once(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput) as refused:
        _read(tmp_path, "[sever]\nlisten = 1\n[list]\nended_days = 'x'\n")
    assert len(refused.value.problems) == 2


def test_the_page_lists_every_setting() -> None:
    tables = {f"[{name}]": settings for name, settings in TABLES.items()} | {"[[local]]": LOCAL_NODES}
    sections = re.split(r"^## ", PAGE.read_text(), flags=re.MULTILINE)[1:]
    assert {section.split("`")[1] for section in sections} == tables.keys()
    for section in sections:
        assert re.findall(r"^\| `.*", section, re.MULTILINE) == _rows(tables[section.split("`")[1]])


def _rows(settings: Sequence[Setting]) -> list[str]:
    return [
        f"| `{item.key}` | {TYPE_NAMES[item.kind]} | {'none' if item.default is None else item.default} "
        f"| {item.meaning} |"
        for item in settings
    ]


def _read(directory: Path, text: str) -> Settings:
    path = directory / "settings.toml"
    path.write_text(text)
    return read_settings(path)
