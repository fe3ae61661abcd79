"""`tarmac launch`: start an unchanged Clusterfudge launch script; its launches become runs of tarmac.

The script has the Python of the user's shell; signals and its exit code are passed on.
"""

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any

import click

from tarmac.cli.dialogue import connect, print_text, remark
from tarmac.cli.following import follow_submitted
from tarmac.cli.runfile import rehearsal_of
from tarmac.model.errors import InvalidInput
from tarmac.systems.clusterfudge.scripts.asking import SOCKET_VARIABLE
from tarmac.systems.clusterfudge.scripts.broker import answering, script_environment
from tarmac.systems.clusterfudge.scripts.dry import DryRun
from tarmac.systems.clusterfudge.scripts.gateway import Gateway


@click.command(context_settings={"allow_interspersed_args": False})
@click.argument("script", type=click.Path())
@click.argument("arguments", metavar="[ARGS]...", nargs=-1, type=click.UNPROCESSED)
@click.option(
    "--rehearse",
    metavar="NODESxSLOTS|FILE",
    help="Each launch on a cluster made up on this machine for it alone: 2x8 is two nodes of eight slots.",
)
@click.option(
    "--dry-run", is_flag=True, help="Print each launch as a native run file, and nothing else; start nothing."
)
@click.option(
    "--follow", "-f", is_flag=True, help="Follow what was launched, once the script has ended, to its end."
)
@click.option("--python", metavar="PROGRAM", help="The Python to run it with; by default that of your shell.")
def launch(
    *,
    script: str,
    arguments: tuple[str, ...],
    rehearse: str | None,
    dry_run: bool,
    follow: bool,
    python: str | None,
) -> None:
    """Start a Clusterfudge launch script as it is.

    In the script, `import clusterfudge` is tarmac's: its launches become runs of tarmac. Everything else in
    it runs as ever, with ARGS as its own. The exit code is the script's; with --follow that of the first
    launch that did not complete.

    \b
    tarmac launch launch.py
    tarmac launch --rehearse 2x8 --follow launch.py
    tarmac launch --dry-run launch.py
    """
    path = Path(script)
    if path.is_dir() or not path.exists():
        what = "is a directory" if path.is_dir() else "does not exist"
        raise InvalidInput(f"{script} {what}", hint="give the launch script: tarmac launch launch.py")
    _remark_on_options_behind(script, arguments)
    overrides = {"rehearse": rehearsal_of(rehearse)} if rehearse is not None else {}
    gateway = Gateway(overrides=overrides)
    reply = DryRun(tell=print_text, overrides=overrides).reply if dry_run else gateway.reply
    with answering(reply) as socket:
        environment = script_environment(os.environ, socket=socket, variable=SOCKET_VARIABLE)
        program = python or script_python(environment)
        code = run_script([program, script, *arguments], environment, aside=dry_run)
    if code == 0 and follow:
        code = _followed(gateway.created)
    gateway.close()
    sys.exit(code)


def _remark_on_options_behind(script: str, arguments: tuple[str, ...]) -> None:
    """Print where options of tarmac belong if the script gets one that its text does not mention."""
    names = [argument.partition("=")[0] for argument in arguments]
    ours = next((name for name in names if name in _OURS), None)
    if ours is not None and ours.lstrip("-") not in _text(script).replace("_", "-"):
        remark(
            f"{ours} comes after {script}, so it is the script's own; for tarmac it goes before: "
            f"tarmac launch {ours} ... {script}"
        )


def _text(script: str) -> str:
    """The text of the script; empty if it cannot be read, because Python will report that."""
    try:
        return Path(script).read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""


def _followed(runs: list[str]) -> int:
    """Follow runs one after the other; return the code of the first that did not complete."""
    if not runs:
        remark("the script launched nothing")
    client = connect()
    codes = [follow_submitted(client, client.run(run)) for run in runs]
    return next((code for code in codes if code), 0)


_OURS = frozenset({"--rehearse", "--dry-run", "--follow", "--python"})
_PROBE = "import sys, clusterfudge; sys.exit(sys.version_info < (3, 9))"
_PROBE_LIMIT_S = 20.0


def script_python(environment: Mapping[str, str]) -> str:
    """The Python of the user's shell if it can run a launch script, else the one that runs tarmac."""
    for name in ("python3", "python"):
        program = shutil.which(name, path=environment.get("PATH"))
        if program is not None and _fit(program, environment):
            return program
    return sys.executable


def run_script(argv: Sequence[str], environment: Mapping[str, str], *, aside: bool = False) -> int:
    """Run a script to its end; return its exit code as a shell does. Ctrl-C is left to the script.

    `aside`: its output goes to stderr, because stdout is used for the answer.
    """
    stdout = sys.stderr.fileno() if aside else None
    with subprocess.Popen(argv, env=dict(environment), stdout=stdout) as process, _signals_for(process):
        status = process.wait()
    return 128 - status if status < 0 else status


def _fit(program: str, environment: Mapping[str, str]) -> bool:
    try:
        probe = subprocess.run(
            [program, "-c", _PROBE],
            env=dict(environment),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            check=False,
            timeout=_PROBE_LIMIT_S,
        )
    except (OSError, subprocess.TimeoutExpired):
        return False
    return probe.returncode == 0


@contextmanager
def _signals_for(process: subprocess.Popen[Any]) -> Iterator[None]:
    """While a script runs, ignore Ctrl-C, which its terminal sends to it as well; pass other signals on."""

    def passed_on(number: int, _frame: FrameType | None) -> None:
        process.send_signal(number)

    before = {
        signal.SIGINT: signal.signal(signal.SIGINT, lambda *_: None),
        signal.SIGTERM: signal.signal(signal.SIGTERM, passed_on),
        signal.SIGHUP: signal.signal(signal.SIGHUP, passed_on),
    }
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
