"""How the suite itself is run: groups stay together, failures are tried once more alone, nothing is left."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from processes import ended
from quiet_browsers import quiet

TOOLS = Path(__file__).parents[2] / "tools"
TOOL = f"""
import sys
sys.path[:0] = ["", {str(TOOLS)!r}]
import run_tests
sys.exit(run_tests.main(sys.argv[1:], longest_wait_s=0))
"""
LIMIT_S = 240.0

pytestmark = pytest.mark.heavy

FAILS_FIRST = """
from pathlib import Path
def test_first(tmp_path_factory):
    mark = Path(__file__).with_name("was-here")
    seen = mark.exists()
    mark.touch()
    assert seen
"""
GROUPED = """
import os, pytest
from pathlib import Path
@pytest.mark.xdist_group("{group}")
@pytest.mark.parametrize("number", range(6))
def test_it(number):
    with Path(__file__).with_name("{group}.txt").open("a") as file:
        file.write(os.environ["PYTEST_XDIST_WORKER"] + "\\n")
"""
KILLED = f"""
import os, sys, signal
sys.path.insert(0, {str(TOOLS.parent / "tests/support")!r})
from pathlib import Path
from warm_commands import WARM
print(WARM.run(["--version"], directory=Path("/"), environment=os.environ, limit_s=100).returncode)
[warm] = Path(f"/proc/{{os.getpid()}}/task/{{os.getpid()}}/children").read_text().split()
if (fork := os.fork()) == 0:
    os.closerange(0, 3)
    signal.pause()
print(warm, fork, flush=True)
os.kill(os.getpid(), signal.SIGKILL)
"""
OPENS_SOCKETS = """
import socket
for family in (socket.AF_INET, socket.AF_NETLINK):
    try:
        socket.socket(family, socket.SOCK_DGRAM).close()
        print("opened")
    except OSError as error:
        print(error.strerror)
"""
PLAIN = "import pytest\n@pytest.mark.parametrize('number', range(12))\ndef test_it(number): ...\n"


def run(directory: Path, *argv: str, **files: str) -> subprocess.CompletedProcess[str]:
    """Run a suite of these files, with the arguments that `make test` gives."""
    (directory / "pytest.ini").write_text("[pytest]\naddopts = --strict-markers\n")
    for name, text in files.items():
        (directory / f"{name}.py").write_text(text)
    return subprocess.run(
        [sys.executable, *argv, "-n", "2", "--dist", "loadgroup"],
        cwd=directory,
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
        check=False,
    )


def test_the_tests_of_a_group_run_in_one_process(tmp_path: Path) -> None:
    """Else every process would start a Slurm of its own: pytest 9.2 with xdist 3.8 loses the groups."""
    files = {f"test_{group}": GROUPED.format(group=group) for group in ("a", "b", "c")}
    done = run(tmp_path, "-m", "pytest", test_plain=PLAIN, **files)
    assert done.returncode == 0, done.stdout
    for group in ("a", "b", "c"):
        workers = (tmp_path / f"{group}.txt").read_text().split()
        assert len(workers) == 6
        assert len(set(workers)) == 1, f"group {group} was run by {set(workers)}"


def test_a_test_that_failed_beside_others_and_passes_alone_is_named_and_green(tmp_path: Path) -> None:
    grouped = 'import pytest\npytestmark = pytest.mark.xdist_group("one")\n' + FAILS_FIRST
    done = run(tmp_path, "-c", TOOL, test_once=grouped, test_plain=PLAIN)
    assert done.returncode == 0, done.stdout
    last = done.stdout.splitlines()[-1]
    assert last == "1 tests failed beside others and passed alone: test_once.py::test_first"


def test_a_test_that_fails_alone_too_is_red(tmp_path: Path) -> None:
    done = run(tmp_path, "-c", TOOL, test_once=FAILS_FIRST, test_never="def test_it(): assert False\n")
    assert done.returncode == 1
    assert "once more, alone: 2 failed" in done.stdout
    assert "passed alone" not in done.stdout


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("import absent_module\n", "test_bad.py could not be collected"),
        ("import os\ndef test_it(): os._exit(1)\n", "a process of pytest crashed"),
        (PLAIN.replace("12", "20").replace("...", "assert False"), "21 tests failed: too many"),
    ],
    ids=["collection", "crash", "many"],
)
def test_what_chance_does_not_explain_is_red_at_once(tmp_path: Path, text: str, said: str) -> None:
    done = run(tmp_path, "-c", TOOL, test_bad=text, test_once=FAILS_FIRST)
    assert done.returncode != 0
    assert said in done.stdout
    assert "once more" not in done.stdout


def test_a_suite_that_was_cut_short_is_red(tmp_path: Path) -> None:
    done = run(tmp_path, "-c", TOOL, "-x", test_once=FAILS_FIRST, test_plain=PLAIN)
    assert done.returncode != 0
    assert "once more" not in done.stdout


def test_a_fixture_that_fails_is_tried_again_too(tmp_path: Path) -> None:
    text = "import pytest\n@pytest.fixture\ndef made():\n    assert False\ndef test_it(made): ...\n"
    done = run(tmp_path, "-c", TOOL, test_bad=text)
    assert done.returncode == 1
    assert "once more, alone: 1 failed" in done.stdout


def test_the_warm_process_of_killed_tests_ends_though_a_fork_of_them_lives(tmp_path: Path) -> None:
    with (tmp_path / "out").open("w") as out:  # no pipe: the warm process would hold it
        done = subprocess.run([sys.executable, "-c", KILLED], stdout=out, timeout=LIMIT_S, check=False)
    assert done.returncode == -signal.SIGKILL
    code, warm, fork = (int(word) for word in (tmp_path / "out").read_text().split())
    try:
        assert code == 0
        assert ended(warm)
    finally:
        os.kill(fork, signal.SIGKILL)


def test_a_browser_gets_no_news_of_networks(tmp_path: Path) -> None:
    program = [quiet(sys.executable, tmp_path), "-c", OPENS_SOCKETS]
    done = subprocess.run(program, capture_output=True, text=True, check=False)
    assert done.stdout.splitlines() == ["opened", "Address family not supported by protocol"]
