"""Runs tests, and those that failed once more alone. Called by `make test` and `make test-engines`.

What fails because the machine was busy passes alone, and is then named. Whatever else goes wrong is red at
once: a failure of collection, a crash, a suite that was cut short, or more failures than chance makes.
"""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import pytest

MOST_AGAIN = 20
"""With more failures than this, nothing is tried again."""

QUIET_S = 2.0
LONGEST_WAIT_S = 60.0
"""The machine is quiet when nothing but this process ran for QUIET_S; LONGEST_WAIT_S bounds the wait."""


class Recorder:
    """What a run of pytest came to: the tests that failed, and what else went wrong."""

    def __init__(self) -> None:
        self.failed: dict[str, None] = {}
        self.problems: list[str] = []

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed:
            self.failed[without_group(report.nodeid)] = None

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        if report.failed:
            self.problems.append(f"{report.nodeid} could not be collected")

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, error: object | None) -> None:
        """A process of xdist is gone; it was to end, unless there is an error."""
        if error:
            self.problems.append("a process of pytest crashed")

    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        if session.shouldfail or session.shouldstop:
            self.problems.append("not all tests were run")


def without_group(nodeid: str) -> str:
    """The id of a test as pytest takes it: `--dist loadgroup` puts `@` and the group's name after it."""
    return nodeid[: nodeid.rfind("@")] if nodeid.rfind("@") > nodeid.rfind("]") else nodeid


def main(argv: Sequence[str], *, longest_wait_s: float = LONGEST_WAIT_S) -> int:
    """Run pytest with these arguments; the exit code is 0 if every test has passed, at last alone."""
    sys.path[0] = str(Path.cwd())  # as `python -m pytest` has it
    recorder = Recorder()
    code = int(pytest.main(list(argv), plugins=[recorder]))
    failed = list(recorder.failed)
    if code == pytest.ExitCode.OK:
        return 0
    if code != pytest.ExitCode.TESTS_FAILED or recorder.problems or not failed:
        for problem in recorder.problems:
            print(problem)
        return code
    if len(failed) > MOST_AGAIN:
        print(f"{len(failed)} tests failed: too many to try them again alone")
        return code
    wait_until_quiet(longest_wait_s)
    print(f"\nonce more, alone: {len(failed)} failed", flush=True)
    again = [sys.executable, "-m", "pytest", "-n", "0", "-p", "no:cacheprovider", *failed]
    if subprocess.run(again, check=False).returncode != 0:
        return code
    print(f"\n{len(failed)} tests failed beside others and passed alone: {', '.join(failed)}")
    return 0


def wait_until_quiet(longest_wait_s: float) -> None:
    """Return once the processes of the tests are gone, or this has taken too long."""
    began_at = quiet_since = time.monotonic()
    while (now := time.monotonic()) - quiet_since < QUIET_S and now - began_at < longest_wait_s:
        time.sleep(0.1)
        running = int(Path("/proc/loadavg").read_text().split()[3].partition("/")[0])
        if running > 1:
            quiet_since = time.monotonic()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
