"""A dry run as text: where the run would sit, what each worker would execute and see, and the native request.

Called by `run --dry-run`.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from tarmac.cli.table import Column, render
from tarmac.cli.terminal import Terminal

if TYPE_CHECKING:
    from tarmac.client.records import DryRunRecord, NodeLaunchRecord, WorkerLaunchRecord

_PLACEMENT = (
    Column(title="NODE"),
    Column(title="RANK", right=True),
    Column(title="SLOTS", right=True),
    Column(title="ADDRESS"),
)


def plan_text(answer: DryRunRecord, terminal: Terminal, *, inherited: Mapping[str, str]) -> str:
    """The whole answer. Variables that are the same `inherited` here are named, not written out."""
    parts = [
        terminal.paint(f"{answer['run']['name']}: nothing is started or kept", "bold"),
        _placement(answer, terminal),
    ]
    parts += [_node(node, terminal, inherited) for node in answer["nodes"]]
    if answer["request"]:
        parts.append(f"{terminal.paint('native request', 'bold')}\n{_indent(answer['request'])}")
    return "\n\n".join(parts)


def _placement(answer: DryRunRecord, terminal: Terminal) -> str:
    placement = answer["placement"]
    if placement is None:
        reasons = [
            f"  {reason['node']}: {reason['text']}" if reason["node"] else f"  {reason['text']}"
            for reason in answer["reasons"]
        ]
        verdict = "It can never start here:" if answer["largest"] else "It would wait now:"
        largest = [f"  the largest that fits: {answer['largest']}"] if answer["largest"] else []
        return "\n".join([verdict, *reasons, *largest])
    rows = [(seat["node"], str(seat["rank"]), str(len(seat["slots"])), seat["address"]) for seat in placement]
    return render(_PLACEMENT, rows, terminal)


def _node(node: NodeLaunchRecord, terminal: Terminal, inherited: Mapping[str, str]) -> str:
    lines = [terminal.paint(f"on {node['node']} (rank {node['rank']})", "bold")]
    for worker in node["workers"]:
        lines += _worker(worker, terminal, inherited)
    return "\n".join(lines)


def _worker(worker: WorkerLaunchRecord, terminal: Terminal, inherited: Mapping[str, str]) -> Iterator[str]:
    yield f"  {worker['role']}.{worker['replica']}.{worker['index']}"
    yield _indent(command_text(worker["argv"]), "    ")
    same = []
    for name, value in sorted(worker["env"].items()):
        if inherited.get(name) == value and len(value) > 40:
            same.append(name)
        else:
            yield f"    {terminal.paint(name, 'dim')}={value}"
    if same:
        yield f"    {terminal.paint(', '.join(same), 'dim')} as here"


def command_text(argv: list[str]) -> str:
    """An argv to read: a bash script by its lines, anything else quoted as a shell would want it."""
    if len(argv) >= 3 and argv[0].endswith("bash") and "\n" in argv[-1].rstrip("\n"):
        return f"{shlex.join(argv[:-1])}\n{_indent(argv[-1].rstrip())}"
    return shlex.join(argv)


def _indent(text: str, by: str = "  ") -> str:
    return "\n".join(by + line for line in text.splitlines())
