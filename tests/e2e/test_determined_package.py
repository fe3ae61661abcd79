"""The package `determined` is brought to runs whose code imports it: a setup step, here from wheels."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

import pytest

from shell import Shell
from wheels import make_wheel

PYTHON = shutil.which("python3") or sys.executable
SCRIPT = "import os, determined\nprint('has', determined.VERSION, 'on node', os.environ['NODE_RANK'])\n"


@pytest.fixture
def index(shell: Shell, tmp_path: Path) -> Path:
    """What pip finds, and no network."""
    made = tmp_path / "index"
    for version in ("0.38.1", "0.34.0", "0.23.4"):
        make_wheel(made, "determined", version=version, package=True)
    make_wheel(made, "tensorboard")
    return made


def configuration(
    shell: Shell, index: Path, *, searcher: str = "{name: single, metric: x}", **files: str
) -> str:
    for name, text in files.items():
        shell.write(f"{name}.py", text)
    return shell.write(
        "const.yaml",
        f"name: digits\nentrypoint: python3 train.py\nsearcher: {searcher}\nmax_restarts: 0\n"
        "resources: {slots_per_trial: 2}\nenvironment: {environment_variables: [PIP_NO_INDEX=1, "
        "PIP_NO_WARN_CONFLICTS=0, "
        f"PIP_FIND_LINKS={index}]}}\n",
    )


def test_it_is_installed_where_the_code_imports_it(shell: Shell, index: Path) -> None:
    """Once for both nodes, and for runs after that; of the era of the file."""
    file = configuration(shell, index, train=SCRIPT)
    log = shell.tarmac("run", file, "--rehearse", "2x1", code=0).stdout
    assert "has 0.38.1 on node 0" in log
    assert "has 0.38.1 on node 1" in log
    setup = shell.tarmac("logs", "digits", "--role", "setup").stdout
    assert "train.py imports determined, which the run's Python does not have" in setup
    assert setup.count("Successfully installed") == 1
    shell.tarmac("run", file, code=0)
    assert "used again" in shell.tarmac("logs", "digits", "--role", "setup").stdout
    older = configuration(
        shell, index, searcher="{name: single, metric: x, max_length: {batches: 3}}", train=SCRIPT
    )
    assert "has 0.34.0" in shell.tarmac("run", older, code=0).stdout


def test_it_is_not_where_nothing_imports_it_or_python_has_it(shell: Shell, index: Path) -> None:
    shell.tarmac("run", configuration(shell, index, train="print('hello')\n"), code=0)
    assert "pip install" not in shell.tarmac("logs", "digits", "--role", "setup").stdout
    shell.write("determined/__init__.py", "VERSION = 'my own'\n")
    assert "has my own" in shell.tarmac("run", configuration(shell, index, train=SCRIPT), code=0).stdout
    assert "pip install" not in shell.tarmac("logs", "digits", "--role", "setup").stdout


def test_settings_name_another_release_or_none(shell: Shell, index: Path) -> None:
    shell.home.mkdir()
    (shell.home / "settings.toml").write_text('[determined]\nlibrary = "0.23.4"\n')
    file = configuration(shell, index, train=SCRIPT)
    assert "has 0.23.4" in shell.tarmac("run", file, code=0).stdout
    (shell.home / "settings.toml").write_text('[determined]\nlibrary = ""\n')
    shell.tarmac("server", "restart", code=0)
    assert "the package 'determined' is not installed here" in shell.tarmac("run", file, code=1).stdout
    (shell.home / "settings.toml").write_text('[determined]\nlibrary = "latest"\n')
    said = shell.tarmac("server", "restart").stderr
    assert "a version of the package 'determined'" in said
    (shell.home / "settings.toml").unlink()


def test_without_an_index_the_run_says_what_it_needed(shell: Shell, tmp_path: Path) -> None:
    file = configuration(shell, tmp_path / "nowhere", train=SCRIPT)
    result = shell.tarmac("run", file, code=1)
    assert "setup step 1 (pip install determined==0.38.1 tensorboard, where the code imports determined)" in (
        result.stderr
    )
    assert "train.py imports determined: install it in the run's Python or image beforehand" in result.stderr
