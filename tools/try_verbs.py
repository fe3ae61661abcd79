"""Types every command on a local cluster, a real Slurm and a real Ray, and writes the table of what came.

    python tools/try_verbs.py                 all three; docs/using/verbs.md is written anew
    python tools/try_verbs.py local slurm     these alone, printed
    python tools/try_verbs.py --missing       options that no line tries

Run by people after a change of the command line. Slurm is started by `benchmarks/slurm_cluster.sh`, Ray in
network namespaces (root); `make test-engines` installs both.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import click

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT / "tools"), str(ROOT / "tests/support")]

from cli_page import all_commands  # noqa: E402
from verb_trials import FILES, VARYING, lines  # noqa: E402

from ray_clusters import running_ray  # noqa: E402
from slurm_clusters import running_slurm  # noqa: E402

PAGE = ROOT / "docs/using/verbs.md"
ENGINES = ("local", "slurm", "ray")
LIMIT_S = 240.0
PATIENCE_S = 30.0
READS = re.compile(
    r"tarmac (ls|logs|show|why|metrics|queue (?!set|move)|nodes (?!drain)|files|exec|artifacts ls|top)"
)
"""What a person repeats until it shows what is awaited."""

INTRO = """# Every verb, tried

Each line was typed on a local cluster, on a real Slurm of two nodes, and on a real Ray of three, with these
results. `python tools/try_verbs.py` starts all three and writes the page. A `!` marks an answer that
must be a refusal. The page about [the command line](cli.md) explains the options.

"""


@dataclass(frozen=True, slots=True)
class Place:
    """A user, with a server of their own, at a cluster of one engine."""

    engine: str
    cluster: str
    pool: str
    slot_type: str
    directory: Path
    environment: Mapping[str, str]

    def type_line(self, line: str) -> tuple[int, str]:
        """The exit code and what is printed."""
        try:
            done = subprocess.run(
                ["bash", "-c", line],
                cwd=self.directory,
                env=self.environment,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                check=False,
                timeout=LIMIT_S,
            )
        except subprocess.TimeoutExpired as late:
            return 124, (late.stdout or b"").decode(errors="replace")
        return done.returncode, done.stdout

    def try_line(self, line: str) -> tuple[bool, str]:
        """Whether what came is what the line says, and the line of it that counts."""
        typed, _, words = line.rpartition(" => ")
        words = VARYING.get((words, self.engine), VARYING.get((words, None), words))
        words = (
            words.replace("ANY", "")
            if words == "ANY"
            else words.replace("C", self.cluster)
            if words == "C"
            else words
        )
        command = re.sub(r"(?<=[ \"'])C(?=[ \"']|$)", self.cluster, typed)
        command = re.sub(r"(?<=[-]pool )P(?= |$)", self.pool, command)
        command = re.sub(r"(?<=-type )T", self.slot_type, command)
        fails, words = words.startswith("!"), words.removeprefix("!")
        deadline = time.monotonic() + PATIENCE_S
        while True:
            code, printed = self.type_line(command)
            good = (code != 0) is fails and words in printed and "Traceback" not in printed
            if good or not READS.match(typed) or time.monotonic() > deadline:
                return good, shown(printed, words, fails=fails, good=good)


def shown(printed: str, words: str, *, fails: bool, good: bool) -> str:
    """The line of an answer that says most."""
    lines = [
        line.strip() for line in re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", printed).splitlines() if line.strip()
    ]
    if not good:
        return " / ".join(lines[-4:])[-400:] or "(nothing)"
    told = (
        [line for line in lines if words and words in line]
        or [line for line in lines if "error" in line]
        or lines
    )
    text = told[0] if told else "(nothing)"
    text = re.sub(r"\btarmac_[\w-]{30,}", "tarmac_...", text)
    text = re.sub(r"\br1[0-9a-z]{11}\b", "RUN", re.sub(r"/\S*/", ".../", text))
    return f"{'! ' if fails else ''}{text if len(text) <= 60 else text[:57] + '...'}"


@contextmanager
def places(engine: str, directory: Path) -> Iterator[Place]:
    """A user at a cluster of an engine; the cluster ends with it."""
    work = directory / "work"
    work.mkdir(parents=True)
    for name, text in FILES.items():
        (work / name).write_text(text)
    programs = directory / "bin"
    programs.mkdir()
    for name, module in (("tarmac", " -m tarmac.cli"), ("python3", "")):
        (programs / name).write_text(f'#!/bin/sh\nexec {sys.executable}{module} "$@"\n')
        (programs / name).chmod(0o755)
    environment = {name: value for name, value in os.environ.items() if not name.startswith("TARMAC_")}
    environment |= {"PATH": f"{programs}:{os.environ['PATH']}", "TARMAC_HOME": f"{directory}/home"}
    environment |= {"COLUMNS": "200", "TERM": "xterm"}

    def at(cluster: str, pool: str = "default", slot_type: str = "cpu", **variables: str) -> Place:
        return Place(engine, cluster, pool, slot_type, work, {**environment, **variables})

    if engine == "local":
        with ending(at("local")) as place:
            yield place
    elif engine == "slurm":
        with (
            running_slurm(directory / "slurm", cpus_per_node=4) as variables,
            ending(at("site", **variables)) as place,
        ):
            settings = {
                "directory": f"{directory}/shared",
                "partition": "batch",
                "python": "/usr/bin/python3",
            }
            added(place, settings)
            yield place
    else:
        with running_ray(directory / "ray") as ray, ending(at("gpus")) as place:
            added(place, {**ray.settings(), "python": str(ray.python)})
            yield place


def added(place: Place, settings: Mapping[str, str]) -> None:
    """Add the cluster of a place; ends the program where that fails."""
    options = " ".join(f"--set {name}={value}" for name, value in settings.items())
    code, printed = place.type_line(f"tarmac clusters add {place.cluster} --engine {place.engine} {options}")
    if code:
        sys.exit(printed)


@contextmanager
def ending(place: Place) -> Iterator[Place]:
    """A place whose runs and server are ended at the end."""
    try:
        yield place
    finally:
        place.type_line("tarmac stop --all --yes --wait; tarmac server stop")


def missing() -> list[str]:
    """Options of commands that no line has."""
    everything = [line for part in lines() for line in part]
    found = []
    for name, command in all_commands():
        tried = " ".join(line for line in everything if f"tarmac {name} " in line.replace(" => ", "  "))
        for option in command.params:
            if not isinstance(option, click.Option) or "--json" in option.opts:
                continue
            if not any(f" {each} " in f"{tried} " for each in option.opts):
                found.append(f"tarmac {name} {max(option.opts, key=len)}")
    return found


def main(arguments: Sequence[str]) -> int:
    if "--missing" in arguments:
        print("\n".join(missing()))
        return 0
    engines = [engine for engine in ENGINES if engine in arguments] or list(ENGINES)
    each, anywhere = lines()
    with (
        tempfile.TemporaryDirectory(prefix="verbs", dir="/tmp") as directory,
        ThreadPoolExecutor() as threads,
    ):
        Path(directory).chmod(0o755)
        tried = [
            threads.submit(try_lines, engine, each + (anywhere if engine == "local" else []), Path(directory))
            for engine in engines
        ]
        answers = dict(zip(engines, (done.result() for done in tried), strict=True))
    if engines == list(ENGINES):
        PAGE.write_text(INTRO + table(answers), encoding="utf-8")
    return int(not all(good for answered in answers.values() for good, _ in answered.values()))


def try_lines(engine: str, chosen: Sequence[str], directory: Path) -> dict[str, tuple[bool, str]]:
    """What came of each line on an engine."""
    answers = {}
    with places(engine, directory / engine) as place:
        for line in chosen:
            good, text = answers[line] = place.try_line(line)
            print(f"{'ok  ' if good else 'FAIL'} {engine:5} {line}\n       {text}", flush=True)
    return answers


def table(answers: Mapping[str, Mapping[str, tuple[bool, str]]]) -> str:
    """The table of what was typed on each engine; then what no engine has a part in."""
    texts = []
    each, anywhere = lines()
    for title, chosen, engines in (("On each engine", each, ENGINES), ("Anywhere", anywhere, ENGINES[:1])):
        texts.append(f"## {title}\n\n| typed | {' | '.join(engines) if len(engines) > 1 else 'came'} |\n")
        texts.append(f"|---{'|---' * len(engines)}|\n")
        for line in chosen:
            cells = [f"`{cell(line.rpartition(' => ')[0])}`"]
            cells += [
                f"{'' if good else '**no**: '}{cell(text)}"
                for good, text in (answers[engine][line] for engine in engines)
            ]
            texts.append(f"| {' | '.join(cells)} |\n")
        texts.append("\n")
    if untried := missing():
        texts.append(f"Not tried here: {', '.join(f'`{each}`' for each in untried)}.\n")
    return "".join(texts).rstrip() + "\n"


def cell(text: str) -> str:
    return text.replace("|", "\\|").replace("<", "&lt;")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
