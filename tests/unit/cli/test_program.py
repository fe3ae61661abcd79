"""The program around the commands: its table, laziness, mistyped words, mistakes of its own."""

from __future__ import annotations

import os
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import click
import pytest

from imported import CORE, LIBRARIES, REQUESTS, STARTS, among, loaded
from tarmac.cli.catalogue import COMMANDS, SYNONYMS
from tarmac.cli.commands import run
from tarmac.systems.determined import command

ENVIRONMENT = {**os.environ, "NO_COLOR": "1", "COLUMNS": "80"}


def tarmac(*arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "tarmac.cli", *arguments],
        capture_output=True,
        text=True,
        check=False,
        env={**ENVIRONMENT, **variables},
        timeout=60,
    )


@pytest.mark.parametrize("name", COMMANDS)
def test_the_table_says_what_the_command_says(name: str) -> None:
    command = getattr(import_module(COMMANDS[name].module), name.replace("-", "_"))
    assert isinstance(command, click.Command)
    assert command.name == name
    assert command.help


@pytest.mark.parametrize("word", SYNONYMS)
def test_a_word_of_another_program_stands_for_a_command_of_ours(word: str) -> None:
    assert word not in COMMANDS
    assert word == word.lower()
    name, *rest = SYNONYMS[word].split()
    if name.startswith("-"):
        return
    command = getattr(import_module(COMMANDS[name].module), name.replace("-", "_"))
    for each in rest:
        options = {text for param in command.params for text in param.opts}
        assert each in (options if each.startswith("-") else command.commands)


COMPLETING = {"_TARMAC_COMPLETE": "bash_complete", "COMP_WORDS": "tarmac ", "COMP_CWORD": "1"}


HELP = (("--help",), ("run", "--help"), ("simulate", "--help"))


@pytest.mark.parametrize("arguments", HELP, ids=" ".join)
def test_help_imports_nothing_of_what_a_command_does(arguments: tuple[str, ...]) -> None:
    modules = loaded(*arguments)
    assert among(modules, *CORE, *LIBRARIES, *REQUESTS, *STARTS, "tarmac.simulator", "tarmac.store") == []


@pytest.mark.heavy
@pytest.mark.parametrize("variables", [{}, COMPLETING], ids=["help", "completion"])
def test_listing_the_commands_imports_none_of_them(variables: dict[str, str]) -> None:
    assert all(name in tarmac("--help", **variables).stdout for name in COMMANDS)
    assert among(loaded("--help", **variables), "tarmac.cli.commands", "pathlib", *LIBRARIES, *REQUESTS) == []


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("rnu",), "error: there is no command 'rnu'; did you mean 'run'?"),
        (("kill", "r1"), "error: there is no command 'kill'; did you mean `tarmac stop`?"),
        (("SBATCH", "x"), "error: there is no command 'SBATCH'; did you mean `tarmac run`?"),
        (("nodes", "drian", "n"), "error: there is no command 'drian'; did you mean 'drain'?"),
        (("ls", "--sate", "x"), "error: there is no option --sate; did you mean --state?"),
        (("ls", "--limit", "x"), "error: invalid value for '--limit': 'x' is not a valid integer range"),
        (("run",), "error: what is to be run? Give a run file, or a command after --"),
        (("run", "a.yaml", "python", "a b"), "error: write a command after --: -- python 'a b'"),
        (("run", "--"), "error: there is no command after --"),
        (("run", "a.yaml", "--clone", "r"), "error: give either the run file a.yaml or --clone r, not both"),
        (
            ("run", "--env", "=1", "--", "ls"),
            "error: invalid value for '--env' / '-e': '=1' is not of the form K=V",
        ),
        (("wait", "r", "--timeout", "soon"), "'soon' is not a duration; write 90s, 10m, 2h or 1d"),
        (("show",), "error: missing argument 'RUN'"),
    ],
)
def test_a_wrong_command_line_is_refused_with_what_may_have_been_meant(
    arguments: tuple[str, ...], message: str, tmp_path: Path
) -> None:
    result = tarmac(*arguments, TARMAC_HOME=str(tmp_path / "home"))
    assert result.returncode == 2
    assert message in result.stderr.splitlines()[0]
    assert "Traceback" not in result.stderr
    assert not (tmp_path / "home").exists()


def test_a_value_taken_from_here_must_be_here() -> None:
    assert "SURELY_UNSET is not set here" in tarmac("run", "--env", "SURELY_UNSET", "--", "ls").stderr


def test_version() -> None:
    result = tarmac("--version")
    assert (result.returncode, result.stdout.split()[0]) == (0, "tarmac")


def test_a_mistake_of_ours_is_one_line_and_a_file_of_details(tmp_path: Path) -> None:
    code = (
        "import sys; sys.argv = ['tarmac', 'broken']\n"
        "import types; module = types.ModuleType('broken')\n"
        "import click\n"
        "@click.command()\n"
        "def broken(): raise ZeroDivisionError('surprise')\n"
        "module.broken = broken; sys.modules['broken'] = module\n"
        "from tarmac.cli.catalogue import COMMANDS, Entry\n"
        "COMMANDS['broken'] = Entry('broken', 'x')\n"
        "from tarmac.cli.main import main; main()\n"
    )
    result = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        check=False,
        env={**ENVIRONMENT, "TMPDIR": str(tmp_path)},
    )
    assert result.returncode == 70
    first, hint = result.stderr.splitlines()
    assert first == "error: internal error: ZeroDivisionError: surprise"
    details = next(tmp_path.iterdir())
    assert hint == f"  hint: please report it with {details}"
    assert "Traceback" in details.read_text()


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_scripts(shell: str) -> None:
    result = tarmac("completion", shell)
    assert result.returncode == 0
    assert "_TARMAC_COMPLETE" in result.stdout


def complete(tmp_path: Path, words: str, at: int) -> list[str]:
    result = tarmac(
        _TARMAC_COMPLETE="bash_complete",
        COMP_WORDS=words,
        COMP_CWORD=str(at),
        TARMAC_HOME=str(tmp_path / "home"),
    )
    assert result.stderr == ""
    return result.stdout.split()


def test_commands_and_options_are_completed(tmp_path: Path) -> None:
    assert complete(tmp_path, "tarmac s", 1) == [
        *(
            "plain,show",
            "plain,shell",
            "plain,stop",
            "plain,shapes",
            "plain,sites",
            "plain,simulate",
            "plain,server",
            "plain,secret",
        )
    ]
    assert "plain,--rehearse" in complete(tmp_path, "tarmac run --re", 2)
    assert complete(tmp_path, "tarmac nodes dr", 2) == ["plain,drain"]


def test_completing_a_run_without_a_server_is_silent_and_starts_none(tmp_path: Path) -> None:
    assert complete(tmp_path, "tarmac show dig", 2) == []
    assert complete(tmp_path, "tarmac nodes drain n", 3) == []
    assert not (tmp_path / "home").exists()


def test_a_closed_stdout_is_quiet() -> None:
    reader, writer = os.pipe()
    os.close(reader)
    result = subprocess.run(
        [sys.executable, "-m", "tarmac.cli", "--help"],
        stdout=writer,
        stderr=subprocess.PIPE,
        check=False,
        env=ENVIRONMENT,
        text=True,
    )
    os.close(writer)
    assert (result.returncode, result.stderr) == (141, "")


def test_a_full_disk_under_stdout_is_said() -> None:
    with Path("/dev/full").open("wb") as full:
        result = subprocess.run(
            [sys.executable, "-m", "tarmac.cli", "--help"],
            stdout=full,
            stderr=subprocess.PIPE,
            check=False,
            env=ENVIRONMENT,
            text=True,
        )
    assert (result.returncode, result.stderr) == (1, "error: no space left on device\n")


def test_an_experiment_takes_the_options_of_a_run_that_change_its_file() -> None:
    def changing(command: click.Command) -> set[str]:
        return {param.name or "" for param in command.params if isinstance(param, click.Option)}

    only_run = {"file_option", "clone", "resume", "sweep", "dry_run", "verbose", "detach", "idempotency_key"}
    reading = {"changes", "parameters", "entry_point", "dialect"}
    assert changing(run.run) - only_run - reading <= changing(command.create)
    assert {"cluster", "no_container", "rehearse"} <= changing(command.create)
    assert {"--config", "--set"} <= {text for param in command.create.params for text in param.opts}
