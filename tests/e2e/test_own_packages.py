"""What a run's commands install with pip is the run's alone, where its file says so for a container (A7)."""

from __future__ import annotations

import venv
from pathlib import Path

import pytest

from shell import Shell
from wheels import make_wheel

BODY = """
pip install -q --user tarmac_tiny
python -c 'import tarmac_tiny; print("found", tarmac_tiny.VERSION)'
python3 -m pip install -q -r requirements.txt
tinytool
python inside.py
"""
INSIDE = """
import subprocess, sys
subprocess.check_call([sys.executable, "-m", "pip", "install", "-q", "tarmac_inner"])
import tarmac_inner
print("found", tarmac_inner.__name__)
"""


@pytest.fixture(scope="module")
def users_python(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A Python with pip, which nobody else uses; its programs are what the run finds first."""
    place = tmp_path_factory.mktemp("users") / "python"
    venv.create(place, system_site_packages=True, symlinks=True)
    return place


def installed(python: Path) -> list[str]:
    return sorted(path.name for path in python.glob("lib/python*/site-packages/*"))


def mcli_file(shell: Shell, index: Path, python: Path) -> str:
    variables = {
        "PIP_NO_INDEX": "1",
        "PIP_NO_WARN_CONFLICTS": "0",
        "PIP_FIND_LINKS": index,
        "PATH": f"{python}/bin:/usr/bin:/bin",
        "HOME": index,
    }
    lines = "\n".join(f"  {line}" for line in [f"cd {shell.directory}", *BODY.strip().splitlines()])
    return (
        "name: digits\nimage: bash\ncompute: {gpus: 0}\nenv_variables:\n"
        + "".join(f"  {name}: '{value}'\n" for name, value in variables.items())
        + f"command: |\n{lines}\n"
    )


def test_a_file_for_a_container_installs_for_itself(shell: Shell, tmp_path: Path, users_python: Path) -> None:
    """`pip`, `python -m pip`, requirements, console scripts, and pip from within Python."""
    index = tmp_path / "index"
    make_wheel(index, "tarmac_tiny")
    make_wheel(index, "tarmac_tool", source="def main():\n    print('the tool')\n", script="tinytool")
    make_wheel(index, "tarmac_inner")
    shell.write("requirements.txt", "tarmac_tool\n")
    shell.write("inside.py", INSIDE)
    before = installed(users_python)
    file = shell.write("digits.yaml", mcli_file(shell, index, users_python))
    said = shell.tarmac("run", file, "--no-container", code=0).stdout
    for words in ("found 1.0", "the tool", "found tarmac_inner"):
        assert words in said
    assert installed(users_python) == before
