"""One word per idea (docs/glossary.md), and units in the names of quantities. Run by `make check`.

Only names we define are held against the rules: what other libraries call their things is theirs. Some words
are gone from prose as well.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from source_tree import ROOT, Module, dotted, offences, package_modules, snippet

INSTEAD = {
    "job": "run",
    "jobs": "runs",
    "task": "run or worker",
    "tasks": "runs or workers",
    "workload": "run",
    "incarnation": "attempt",
    "host": "node",
    "hosts": "nodes",
    "gpu": "slot",
    "gpus": "slots",
    "partition": "pool",
    "suspend": "pause",
    "suspended": "paused",
    "evict": "preempt",
    "evicted": "preempted",
    "resubmit": "requeue",
    "kill": "stop",
    "killed": "stopped",
    "abort": "stop",
    "aborted": "stopped",
    "cancel": "stop",
    "cancelled": "stopped",
    "terminate": "stop",
    "terminated": "stopped",
    "blob": "artifact",
    "phase": "state",
    "desk": "service",
    "mirror": "cache",
    "fleet": "inventory",
    "bell": "wakeup",
    "rim": "auth",
    "tidier": "janitor",
    "keeper": "sidecar",
    "pulse": "wake channel",
    "strays": "orphans",
    "shelf": "bucket",
    "homeless": "unassigned",
    "hopeless": "cannot fit",
    "displace": "preempt",
    "displacer": "preemptor",
    "lane": "class queue",
    "lanes": "class queues",
    "shut": "parked or closed",
    "keepings": "reservations",
    "guest": "weightless replica",
    "guests": "weightless replicas",
    "mover": "preempting",
    "movers": "preempting",
    "hasty": "fail if busy",
    "vain": "futile",
    "luck": "sample",
    "foresight": "estimate",
    "telling": "explain",
    "equip": "apply conventions",
    "seat": "placement",
    "seats": "placements",
    "evidence": "milestones",
    "told": "what the value is: message, record, fields ...",
    "said": "what the value is: text, report ...",
    "asked": "request, or what the value is",
    "wanted": "what the value is: target, expected ...",
    "meant": "near, or what the value is",
    "held": "holder, lock, or what the value is",
    "stands": "position, or what the value is",
    "apart": "namespace",
    "verdict": "report, outcome, answer ...",
    "witness": "merge, or what the function does",
    "stretch": "attempt, interval",
    "stretches": "attempts, intervals",
}
"""Words that the glossary gives up, and the one it keeps."""

CORE = {
    "model",
    "sched",
    "launch",
    "search",
    "dialects",
    "control",
    "store",
    "artifacts",
    "client",
    "server",
    "cli",
    "node",
    "engines",
}

NATIVE = {
    "tarmac.engines": {"host", "hosts"},  # where an engine reaches its cluster: engines/hosts
    "tarmac.engines.local": {"gpu", "gpus"},  # what NVML calls them
    "tarmac.node.kernel.nvml": {"gpu", "gpus"},
    "tarmac.node.host.gpus": {"gpu", "gpus"},
    "tarmac.node.host.agent": {"gpus"},
    "tarmac.node.processes.meter": {"gpu", "gpus"},  # whose use NVML measures
    "tarmac.engines.attempts.reported": {"gpu", "gpus"},
    "tarmac.model.resources": {"gpu", "gpus"},
    "tarmac.cli.views.queueview": {"gpu", "gpus"},
    "tarmac.node.container": {"mirror"},  # of a registry
    "tarmac.server.settings": {"mirror"},
    "tarmac.engines.sim": {"job", "jobs", "cancel"},  # of a batch system; and of an appointment
    "tarmac.engines.slurm": {"job", "jobs", "task", "partition", "gpu", "gpus", "cancel"},
    "tarmac.engines.unicore": {"job", "jobs", "partition", "partitions", "gpu", "gpus", "cancel", "host"},
    "tarmac.engines.sites": {"job", "jobs", "partition", "cancel"},
    "tarmac.engines.firecrest": {"job", "jobs", "task", "partition", "cancel"},
    "tarmac.client": {"host"},  # the address of a server
    "tarmac.server": {"host", "task", "tasks", "cancel"},  # the same, and asyncio's own words
    "tarmac.systems.determined.gateway": {
        "job",
        "jobs",
        "kill",
        "task",
        "tasks",
    },  # what Determined calls them, in its routes
    "tarmac.simulator": {"held"},  # the column `held_s` of its tables
}
"""Packages that speak of a foreign system in its own words, and those words."""

EVERYWHERE = {
    r"desks?": "service, cleaner",
    r"tidier": "janitor",
    r"keepings": "reservations",
    r"shelf": "bucket",
    r"homeless": "unassigned",
    r"hopeless": "cannot fit",
    r"displac(e|es|ed|er|ing)": "preempt",
    r"(give|gives|gave|giving|given) way": "be preempted",
    r"make room": "preempt",
    r"foresight": "estimate",
    r"equip(s|ped)?": "apply conventions",
    r"seats?": "placement",
    r"evidence": "milestones, signs",
    r"witness(ed)?": "milestones",
    r"stillness": "quiescence",
    r"strays": "orphans",
    r"bells?": "wakeup",
    r"rims?": "edge, outermost level",
    r"verdicts?": "report, outcome, answer",
    r"movers?": "preempting",
    r"(pause|resume|preempt|stop)_asked": "..._requested",
}
"""Words that are gone from names, prose and messages alike, as patterns, and those in their place."""

LEFT = (
    "docs/contributing/decisions/",  # dated records
    "docs/glossary.md",  # says which words are given up
    "src/tarmac/store/migrations/",
    "tests/contract/",  # of the store: databases of older versions
    "tests/tidy/test_words.py",
)

QUANTITIES = {
    "timeout",
    "interval",
    "period",
    "duration",
    "delay",
    "grace",
    "ttl",
    "age",
    "elapsed",
    "lag",
    "latency",
    "memory",
    "size",
    "ram",
}
"""Names that end so need a unit after them: timeout_s, memory_bytes."""

FOREIGN_NAMES = {"_FALLOC_FL_KEEP_SIZE"}
"""Constants that carry the name they have elsewhere."""

NUMBER = re.compile(r"\b(int|float)\b")


def test_the_glossary_is_kept() -> None:
    assert offences(banned_words, package_modules()) == []


def test_quantities_carry_their_unit() -> None:
    assert offences(missing_units, package_modules()) == []


def test_the_rules_bite() -> None:
    for text in (
        "def submit_job(): ...",
        "class TaskState: ...",
        "def f(kill: bool): ...",
        "gpu_count = 3",
        "class Node:\n    evicted: bool = False\n",
        "for job in []: ...",
    ):
        assert offences(banned_words, [snippet(text, name="tarmac.control.thing")]), text
    assert not offences(banned_words, [snippet("import os\nos.kill(1, 9)", name="tarmac.control.thing")])
    assert not offences(banned_words, [snippet("def skill(): ...", name="tarmac.control.thing")])
    for text in (
        "def wait(timeout: float): ...",
        "class A:\n    memory: int\n",
        "def f(*, poll_interval: float | None = None): ...",
        "POLL_PERIOD = 5.0",
    ):
        assert offences(missing_units, [snippet(text)]), text
    assert not offences(missing_units, [snippet("def wait(timeout_s: float, memory: Memory): ...")])


def test_old_words_are_gone_from_prose_and_messages_too() -> None:
    pattern = re.compile(rf"(?<![A-Za-z-])({'|'.join(EVERYWHERE)})(?![A-Za-z-])", re.IGNORECASE)
    found = [
        f"{path}:{number}: {match[0]}"
        for path in tracked_texts()
        if not path.startswith(LEFT)
        for number, line in enumerate((ROOT / path).read_text().splitlines(), start=1)
        for match in pattern.finditer(line)
    ]
    assert found == []


def tracked_texts() -> Iterator[str]:
    """Code and documentation, as paths below the root."""
    for top in ("src", "tests", "docs", "tools", "benchmarks", "examples"):
        for path in sorted((ROOT / top).rglob("*")):
            if path.suffix in (".py", ".md") and path.is_file():
                yield str(path.relative_to(ROOT))
    yield from ("README.md", "CONTRIBUTING.md", "SECURITY.md")


def banned_words(module: Module) -> Iterator[str]:
    """Names of ours that use a word the glossary gave up."""
    if module.package not in CORE:
        return
    native = {word for name, words in NATIVE.items() if module.name.startswith(name) for word in words}
    for name, line in _defined_names(module):
        for word in _words(name):
            if word in INSTEAD and word not in native:
                yield f"line {line}: {name!r} says {word!r}; the glossary says {INSTEAD[word]!r}"


def missing_units(module: Module) -> Iterator[str]:
    """Numbers whose name is a quantity without its unit."""
    for name, line in _numbers(module):
        if set(_words(name)[-1:]) & QUANTITIES and name not in FOREIGN_NAMES:
            yield f"line {line}: {name!r} is a number without its unit (_s, _bytes, ...)"


def _defined_names(module: Module) -> Iterator[tuple[str, int]]:
    for node in module.nodes:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            yield node.name, node.lineno
        elif isinstance(node, ast.arg):
            yield node.arg, node.lineno
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.id, node.lineno
        elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
            yield node.attr, node.lineno


def _numbers(module: Module) -> Iterator[tuple[str, int]]:
    for node in module.nodes:
        if isinstance(node, ast.arg) and node.annotation and NUMBER.search(_annotation(node.annotation)):
            yield node.arg, node.lineno
        elif isinstance(node, ast.AnnAssign) and NUMBER.search(_annotation(node.annotation)):
            yield dotted(node.target), node.lineno
        elif isinstance(node, ast.Assign) and _is_number(node.value):
            yield dotted(node.targets[0]), node.lineno


def _is_number(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and isinstance(node.value, int | float)


def _annotation(node: ast.expr) -> str:
    """The annotation as text, less what sits in brackets: a list of numbers is no number."""
    return re.sub(r"\[.*\]", "", ast.unparse(node))


def _words(name: str) -> list[str]:
    spaced = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name)
    return [word for word in spaced.lower().split("_") if word]
