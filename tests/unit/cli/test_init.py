"""`tarmac init`: files that hold together for every framework, and never over files of the user's own."""

from __future__ import annotations

import ast
import json
import re
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from tarmac.cli.commands.init import FRAMEWORKS, TEMPLATES, init
from tarmac.model.errors import InvalidInput
from tarmac.systems.registry import read

GUIDE = Path(__file__).resolve().parents[3] / "docs/using/guides/checkpoints.md"


def called(*arguments: str) -> Result:
    return CliRunner().invoke(init, arguments)


@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_the_files_of_a_framework_are_read_and_compiled(framework: str, tmp_path: Path) -> None:
    place = tmp_path / "My model (2)"
    assert called("--framework", framework, str(place)).exit_code == 0
    text = (place / "run.yaml").read_text()
    reading = read(text, filename="run.yaml", directory=str(place))
    assert reading.spec.name == "My-model-2"
    assert reading.warnings == ()
    tree = ast.parse((place / "train.py").read_text())
    calls = {
        node.func.attr
        for node in ast.walk(tree)
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and isinstance(node.func.value, ast.Name)
        and node.func.value.id == "tarmac"
    }
    assert calls >= {"checkpoint", "latest_checkpoint", "should_pause", "report", "finished"}


def test_every_template_belongs_to_a_framework() -> None:
    assert sorted(path.name for path in TEMPLATES.iterdir()) == sorted(FRAMEWORKS)


@pytest.mark.parametrize("name", ["2026", "1e3", "null", "no", "0x10"])
def test_a_directory_whose_name_looks_like_another_value_still_names_the_run(
    name: str, tmp_path: Path
) -> None:
    called(str(tmp_path / name))
    text = (tmp_path / name / "run.yaml").read_text()
    assert read(text, filename="run.yaml", directory="/").spec.name == name


def test_files_that_exist_stay_and_nothing_is_written(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text("mine")
    result = called(str(tmp_path))
    assert isinstance(result.exception, InvalidInput)
    assert f"{tmp_path / 'train.py'} exists already" in str(result.exception)
    assert (tmp_path / "train.py").read_text() == "mine"
    assert not (tmp_path / "run.yaml").exists()


def test_force_overwrites(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text("mine")
    answer = json.loads(called(str(tmp_path), "--force", "--json").stdout)
    assert answer["files"] == [str(tmp_path / "run.yaml"), str(tmp_path / "train.py")]
    assert "tarmac.should_pause" in (tmp_path / "train.py").read_text()


def test_a_file_in_the_place_of_the_directory_is_named(tmp_path: Path) -> None:
    (tmp_path / "taken").write_text("")
    result = called(str(tmp_path / "taken"))
    assert isinstance(result.exception, InvalidInput)
    assert "taken cannot be written" in str(result.exception)


def test_the_guide_shows_code_of_the_templates() -> None:
    """Which a test runs: what the guide shows of a framework is in its template, piece by piece."""
    fence = re.compile(r"^<!-- from: (\w+) -->\n```python\n(.*?)^```$", re.DOTALL | re.MULTILINE)
    blocks = fence.findall(GUIDE.read_text())
    assert {framework for framework, _ in blocks} == set(FRAMEWORKS)
    for framework, block in blocks:
        template = _unindented((TEMPLATES / framework / "train.py.txt").read_text())
        for piece in re.split(r"\n{2,}", block.strip("\n")):
            assert f"\n{_unindented(piece)}\n" in template, (framework, piece)


def _unindented(text: str) -> str:
    return "\n".join(line.strip() for line in text.splitlines())
