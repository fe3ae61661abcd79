"""What `tarmac convert` writes reads back as the same spec, whatever dialect it came from."""

from __future__ import annotations

from pathlib import Path

import pytest

from tarmac.dialects.dialect import Extras
from tarmac.dialects.native.reader import write
from tarmac.model.codec import replace
from tarmac.model.spec import RunSpec
from tarmac.systems.registry import read

GOLDEN = Path(__file__).parents[2] / "golden" / "dialects"
EXPECTED = '{\n "spec": {'
"""How what golden tests expect begins: it lies beside the run files."""

FILES = sorted(
    path
    for directory in GOLDEN.glob("*/good")
    for path in directory.iterdir()
    if path.suffix in (".yaml", ".yml", ".isc", ".toml", ".json")
    and not path.read_text().startswith(EXPECTED)
)
HOME = "/home/ada/digits"


def beside(path: Path) -> Extras:
    """The project file that some dialects want with their own."""
    project = path.with_name("MLproject")
    return Extras(files=(("MLproject", project.read_text()),) if project.exists() else ())


def same(spec: RunSpec) -> RunSpec:
    """The spec less what a conversion changes on purpose."""
    return replace(spec, source="", dialect="native")


@pytest.mark.parametrize("path", FILES, ids=lambda path: f"{path.parent.parent.name}-{path.stem}")
def test_a_converted_file_is_the_same_run(path: Path) -> None:
    """M1, I3, D9, C2, K1: any dialect, as a native run file that runs the same."""
    spec = read(path.read_bytes().decode(), filename=path.name, directory=HOME, extras=beside(path)).spec
    text = write(spec, directory=HOME)
    again = read(text, filename="run.yaml", directory=HOME, dialect="native").spec
    assert same(again) == same(spec)
    assert write(again, directory=HOME) == text
