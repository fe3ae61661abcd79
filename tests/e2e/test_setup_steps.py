"""Setup steps as a person meets them: M8 (in order, then the command; a failing one is told), C6 on nodes."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from gitserver import GitServer, Repo, http_server
from shell import Shell
from wheels import make_wheel

USERS_PYTHON = shutil.which("python3") or sys.executable
"""What the runs of these tests find on their PATH, and must leave as it is."""

UNCHECKED = "PIP_NO_WARN_CONFLICTS: '0'"
"""pip looks for no conflicts in all that the Python of the tester has: that is half of its work."""


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GitServer]:
    with http_server(tmp_path_factory.mktemp("served")) as server:
        yield server


@pytest.fixture
def user(shell: Shell) -> Shell:
    shell.home.mkdir()
    (shell.home / "settings.toml").write_text('[git]\ngit_transports = ["http"]\n')
    return shell


@pytest.fixture
def index(tmp_path: Path) -> Path:
    """What `pip` finds: a directory of wheels, and no network."""
    return tmp_path / "index"


def run_file(user: Shell, index: Path, setup: str, command: str, *, name: str = "digits") -> str:
    lines = "\n".join(f"  {line}" for line in setup.strip().splitlines())
    script = "\n".join(f"  {line}" for line in command.strip().splitlines())
    return user.write(
        f"{name}.yaml",
        f"name: {name}\nenv: {{PIP_NO_INDEX: '1', PIP_FIND_LINKS: {index}, {UNCHECKED}}}\n"
        f"setup:\n{lines}\ncommand: |\n{script}\n",
    )


def setup_log(user: Shell, run: str) -> str:
    return user.tarmac("logs", run, "--role", "setup", code=0).stdout


def test_m8_steps_run_in_order_then_the_command(user: Shell, served: GitServer, index: Path) -> None:
    """M8, C6: a repository, packages, a command; what they bring is there for the command, on each node."""
    repo = Repo.new(served.root / "library", data_txt="old")
    commit = repo.git("rev-parse", "HEAD")
    repo.commit(data_txt="new")
    make_wheel(index, "tarmac_tiny", source="def main():\n    print('tiny')\n", script="tinytool")
    file = run_file(
        user,
        index,
        f"""
- git: {{url: {served.url_of(repo)}, commit: {commit[:10]}, path: deps/library}}
- pip: [tarmac_tiny]
- tinytool > made.txt
- python -c 'import tarmac_tiny, sys; print("step sees it")'
""",
        """
cat deps/library/data.txt made.txt
python -c 'import tarmac_tiny; print("from", tarmac_tiny.__file__)'
tinytool
git -C deps/library log --format=%H
""",
    )
    said = user.tarmac("run", file, "--rehearse", "2x1", "--slots", "2", code=0).stdout
    for words in ("old", "tiny", "from ", commit):
        assert words in said
    log = setup_log(user, "digits")
    assert [line.split("] ")[-1].split(" | ")[-1] for line in log.splitlines() if "+ " in line]
    order = [log.index(words) for words in ("+ git clone", "+ pip install tarmac_tiny", "+ tinytool")]
    assert order == sorted(order)
    assert f"(at commit {commit})" in log
    # Nothing of it came into the environment of the server, nor of the person who submitted it.
    seen = subprocess.run([USERS_PYTHON, "-c", "import tarmac_tiny"], capture_output=True, check=False)
    assert seen.returncode != 0


def test_m8_equal_requirements_are_installed_once(user: Shell, index: Path) -> None:
    """What equal words came to is used again; runs that ask other things have environments of their own."""
    make_wheel(index, "tarmac_tiny", "1.0")
    make_wheel(index, "tarmac_tiny", "2.0")
    command = "python -c 'import tarmac_tiny; print(tarmac_tiny.VERSION, tarmac_tiny.__file__)'"
    places = {}
    for name, requirement in (
        ("one", "tarmac_tiny<2"),
        ("two", "tarmac_tiny>=2"),
        ("again", "tarmac_tiny<2"),
    ):
        file = run_file(user, index, f"- pip: ['{requirement}']", command, name=name)
        version, places[name] = user.tarmac("run", file, code=0).stdout.split()[-2:]
        assert version == ("2.0" if name == "two" else "1.0")
    assert places["one"] == places["again"] != places["two"]
    assert "used again" not in setup_log(user, "one")
    assert "used again" in setup_log(user, "again")
    assert "Successfully installed" not in setup_log(user, "again")


def test_two_nodes_at_once_build_one_environment(user: Shell, index: Path) -> None:
    make_wheel(index, "tarmac_tiny")
    file = run_file(user, index, "- pip: [tarmac_tiny]", "python -c 'import tarmac_tiny'")
    user.tarmac("run", file, "--rehearse", "3x1", "--slots", "3", code=0)
    logs = user.home.glob("runs/*/attempts/1/logs/setup.*.log")
    log = "".join(path.read_text() for path in logs)
    assert log.count("Successfully installed") == 1
    assert log.count("used again") == 2


def test_what_a_command_installs_stays_with_its_attempt(user: Shell, index: Path) -> None:
    """`pip install` in a command of the setup touches neither shared environments nor the user's own."""
    make_wheel(index, "tarmac_base")
    make_wheel(index, "tarmac_private")
    shared = "- pip: [tarmac_base]"
    file = run_file(
        user,
        index,
        f"{shared}\n- pip install tarmac_private",
        "python -c 'import tarmac_private, tarmac_base'",
    )
    user.tarmac("run", file, code=0)
    file = run_file(user, index, shared, "python -c 'import tarmac_private'", name="other")
    assert "No module named 'tarmac_private'" in user.tarmac("run", file, code=1).stdout
    seen = subprocess.run([USERS_PYTHON, "-c", "import tarmac_private"], capture_output=True, check=False)
    assert seen.returncode != 0


def test_a_repository_is_installed_editable_or_not(user: Shell, served: GitServer, index: Path) -> None:
    """`install`: an editable one belongs to its attempt, another to its commit."""
    files = {
        "pyproject.toml": "[build-system]\nrequires = []\nbuild-backend = 'backend'\nbackend-path = ['.']\n",
        "backend.py": BACKEND,
        "tarmac_lib.py": "WORD = 'from the repository'\n",
    }
    repo = Repo.new(served.root / "lib")
    for name, text in files.items():
        (repo.path / name).write_text(text)
    repo.commit()
    command = "python -c 'import tarmac_lib; print(tarmac_lib.WORD, tarmac_lib.__file__)'"
    url = served.url_of(repo)
    for name, install in (("plain", "."), ("plain2", "."), ("edit", "-e .")):
        file = run_file(user, index, f"- git: {{url: {url}, install: {install}}}", command, name=name)
        said = user.tarmac("run", file, code=0).stdout
        assert "from the repository" in said
        assert ("/work/lib/tarmac_lib.py" in said) == (name == "edit")
    assert "used again" in setup_log(user, "plain2")


def test_m8_a_failing_step_ends_the_run_as_setup_failed(user: Shell, served: GitServer, index: Path) -> None:
    """M8: the message says which step in words, the tail is its output; the command never runs."""
    index.mkdir()
    for name, step, words, tail in (
        ("a", "pip: [numpyy]", "setup step 1 (pip install numpyy) on ", "No matching distribution"),
        (
            "b",
            f"git: {served.url}/nothing",
            f"setup step 1 (git clone {served.url}/nothing nothing)",
            "not found",
        ),
        ("c", "echo oops; exit 3", "setup step 1 (echo oops; exit 3) on ", "oops"),
        ("d", "git: https://example.org/a.git", "git may not use 'https' here, only http", ""),
    ):
        file = run_file(user, index, f"- {step}" if ":" in step else f"- '{step}'", "touch ran", name=name)
        assert user.tarmac("run", file).returncode != 0
        run = user.json("show", name)["run"]
        assert (run["outcome"], run["cause"]["code"]) == ("failed", "setup_failed")
        assert words in run["cause"]["message"]
        assert tail in "\n".join(run["cause"]["tail"])
    assert not list(user.home.rglob("ran"))


def test_system_packages_are_refused_unless_allowed(user: Shell, index: Path) -> None:
    """apt_packages on a machine that is shared: refused at submission, nothing is kept."""
    file = run_file(user, index, "- apt: [libsndfile1]", "echo")
    for arguments in (("run", file), ("run", "--dry-run", file)):
        said = user.tarmac(*arguments, code=2).stderr
        assert "would install packages of the distribution (libsndfile1)" in said
        assert "allow_system_packages" in said
    assert user.json("ls")["runs"] == []
    user.tarmac("server", "stop", code=0)
    (user.home / "settings.toml").write_text("[setup]\nallow_system_packages = true\n")
    tools = user.directory / "tools"
    user.write("tools/apt-get", '#!/bin/sh\necho "asked: $*"\n')
    (tools / "apt-get").chmod(0o755)
    user.write(
        "allowed.yaml",
        f"name: ok\nenv: {{PATH: '{tools}:/usr/bin:/bin'}}\nsetup: [apt: [x]]\ncommand: echo\n",
    )
    user.tarmac("run", "allowed.yaml", code=0)
    assert "asked: -y -o DPkg::Lock::Timeout=600 install -- x" in setup_log(user, "ok")


def test_a_pause_ends_an_installation_and_nothing_half_made_is_used(user: Shell, index: Path) -> None:
    """Setup is interruptible; the environment that was being made is made anew."""
    gate = user.gate()
    repo = user.directory / "slow"
    repo.mkdir()
    (repo / "pyproject.toml").write_text(
        "[build-system]\nrequires = []\nbuild-backend = 'backend'\nbackend-path = ['.']\n"
    )
    (repo / "tarmac_lib.py").write_text("WORD = 1\n")
    (repo / "backend.py").write_text(
        f"import os\nif os.path.exists({str(gate)!r}): open({str(gate)!r}).read()\n{BACKEND}"
    )
    make_wheel(index, "tarmac_tiny")
    file = run_file(user, index, f"- pip: [tarmac_tiny, {repo}]", "python -c 'import tarmac_lib'")
    user.tarmac("run", "--detach", file, code=0)
    with gate.open("w"):  # opened once the backend reads: pip is in the midst of it
        user.tarmac("pause", "digits", code=0)
        user.wait_until("digits", "paused")
        assert not pips(user.home)
    gate.unlink()
    user.tarmac("resume", "digits", code=0)
    user.wait_until("digits", "ended")
    assert user.json("show", "digits")["run"]["outcome"] == "completed"


def test_a_dry_run_shows_the_steps(user: Shell, served: GitServer, index: Path) -> None:
    file = run_file(user, index, f"- git: {served.url}/a\n- pip: [numpy]\n  upgrade: true", "echo")
    said = user.tarmac("run", "--dry-run", "--verbose", file, code=0).stdout
    assert f"git clone {served.url}/a a" in said
    assert "pip install --upgrade numpy" in said


def pips(home: Path) -> list[str]:
    """The command lines of the pips that install below a home."""
    found = []
    for entry in Path("/proc").iterdir():
        try:
            words = (entry / "cmdline").read_bytes().decode().split("\0")
        except (OSError, ValueError):
            continue
        if "pip" in words and any(str(home) in word for word in words):
            found.append(json.dumps(words))
    return found


BACKEND = """
import os, zipfile

def _wheel(directory, files):
    name = "tarmac_lib-1.0-py3-none-any.whl"
    info = "tarmac_lib-1.0.dist-info"
    files = {
        **files,
        f"{info}/METADATA": "Metadata-Version: 2.1\\nName: tarmac_lib\\nVersion: 1.0\\n",
        f"{info}/WHEEL": "Wheel-Version: 1.0\\nGenerator: t\\nRoot-Is-Purelib: true\\nTag: py3-none-any\\n",
    }
    files[f"{info}/RECORD"] = "".join(f"{file},,\\n" for file in files)
    with zipfile.ZipFile(os.path.join(directory, name), "w") as archive:
        for file, text in files.items():
            archive.writestr(file, text)
    return name

def build_wheel(directory, config_settings=None, metadata_directory=None):
    return _wheel(directory, {"tarmac_lib.py": open("tarmac_lib.py").read()})

def build_editable(directory, config_settings=None, metadata_directory=None):
    return _wheel(directory, {"_tarmac_lib.pth": os.getcwd() + "\\n"})
"""
