"""Which file of a run's code imports a package: statements count, other mentions do not."""

from __future__ import annotations

from pathlib import Path

import pytest

from tarmac.node.setup.packages import importer


@pytest.mark.parametrize(
    "line",
    [
        "import determined",
        "import determined as det",
        "import torch, determined",
        "    from determined.pytorch import PyTorchTrial",
        "from determined import core",
        "try:\n\timport determined.core; x = 1",
    ],
)
def test_an_import_is_found(tmp_path: Path, line: str) -> None:
    (tmp_path / "lib").mkdir()
    (tmp_path / "lib/model.py").write_bytes(b"# \xff not UTF-8\nimport os\n" + line.encode())
    assert importer(str(tmp_path), "determined") == "lib/model.py"


@pytest.mark.parametrize(
    "line",
    [
        "# import determined",
        "import determined_common",
        "from determined_common import api",
        "from .determined import x",
        "import lib.determined",
        "print('import determined')",
        "from here import determined",
    ],
)
def test_another_mention_is_none(tmp_path: Path, line: str) -> None:
    (tmp_path / "train.py").write_text(f"{line}\n")
    (tmp_path / "notes.md").write_text("import determined\n")
    (tmp_path / ".venv").mkdir()
    (tmp_path / ".venv/x.py").write_text("import determined\n")
    (tmp_path / "linked").symlink_to(tmp_path / ".venv")
    assert importer(str(tmp_path), "determined") is None
