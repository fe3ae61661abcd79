"""Every example is a good run file that opens by saying what it shows."""

from __future__ import annotations

from pathlib import Path

import pytest

from tarmac.systems.registry import read

EXAMPLES = Path(__file__).resolve().parents[3] / "examples"
FILES = sorted(EXAMPLES.glob("*/run.yaml"))


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.parent.name)
def test_an_example_is_read_without_a_warning(path: Path) -> None:
    reading = read(path.read_text(encoding="utf-8"), filename=str(path), directory=str(path.parent))
    assert reading.warnings == ()
    if reading.spec.code is not None:
        code = Path(reading.spec.code.path)
        assert code == path.parent or (code.parent == EXAMPLES and code.is_dir()), "that of an example"


def test_the_first_example_is_five_lines_or_fewer() -> None:
    assert len((EXAMPLES / "01-hello/run.yaml").read_text(encoding="utf-8").splitlines()) <= 5


@pytest.mark.parametrize(
    "path", [item for item in FILES if item.parent.name < "10"], ids=lambda path: path.parent.name
)
def test_an_example_says_what_it_shows(path: Path) -> None:
    assert path.read_text(encoding="utf-8").startswith("# ")


def test_examples_are_numbered_without_gaps() -> None:
    numbers = [path.parent.name[:2] for path in FILES if path.parent.name < "10"]
    assert numbers == [f"{number:02}" for number in range(1, len(numbers) + 1)]
