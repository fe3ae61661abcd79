"""Only `node/files/untrusted.py` opens files that a run can write; every other plain open is listed here.

Run by `make check`. A new entry needs a reason why no run can put anything in the place of that file, or why
whoever opens it may wait for it.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from source_tree import Module, offences, package_modules, snippet

PLACES = ("tarmac.node.", "tarmac.engines.", "tarmac.artifacts.versions.")

PLAIN = {
    "tarmac.node.files.untrusted": "this is the one",
    "tarmac.node.files.codestore": "the store of code",
    "tarmac.node.kernel.mounts": "/proc, and places held before the workers start",
    "tarmac.node.container.images": "beside the attempts, for their owner alone",
    "tarmac.node.container.archives": "an image of the submitter's, read by a process that can be ended",
    "tarmac.node.container.unpacking": "a layer in the making, out of which no link leads",
    "tarmac.node.container.pulling": "logins of the node's user",
    "tarmac.node.container.making": "/proc",
    "tarmac.node.container.root": "before the workers start, and the root that is being made",
    "tarmac.node.hooks.mounts": "before the workers start",
    "tarmac.node.hooks.system_user": "directories of the server's, of which nothing is read; follows no link",
    "tarmac.node.files.staging": "a directory in the making, or the store: no link is followed",
    "tarmac.node.hooks.code": "the store of code, and a directory that is being made",
    "tarmac.node.setup.layers": "environments that runs share, or in the making, beside the attempts",
    "tarmac.node.kernel.handles": "a pipe, and locks of images and services, for their owner alone",
    "tarmac.node.kernel.procfs": "/proc and /sys",
    "tarmac.node.kernel.namespaces": "/proc",
    "tarmac.node.kernel.workergroup": "/sys",
    "tarmac.node.kernel.sockets": "a directory, of which nothing is read, and /proc",
    "tarmac.node.session.surroundings": "/proc and /sys",
    "tarmac.node.session.serving": "/dev/null",
    "tarmac.node.processes.spawn": "/dev/null",
    "tarmac.node.processes.detach": "/dev/null",
    "tarmac.node.kernel.fifo": "never waits, follows no link, and looks what it has opened",
    "tarmac.node.progress.polls": "the same; made by the worker itself",
    "tarmac.node.warm": "the socket inherited from its starter",
    "tarmac.node.sdk": "runs inside the worker",
    "tarmac.engines.local.engine": "in the home, made anew at every start",
    "tarmac.engines.ray.far.actor": "/proc",
    "tarmac.engines.hosts.report_copies": "copies in the home, which no run can reach",
    "tarmac.artifacts.versions.fenced": "directories, of which nothing is read; follows no link",
    "tarmac.artifacts.versions.sync": "never waits, and looks what it has opened",
    "tarmac.artifacts.versions.restore": "made new, exclusively",
    "tarmac.artifacts.versions.catalog": "in the home",
    "tarmac.artifacts.versions.blobs": "the store",
}

OPENING = {"open", "os.open", "io.open"}
METHODS = (".open", ".read_text", ".read_bytes", ".write_text", ".write_bytes")


def test_files_of_runs_are_opened_in_one_place() -> None:
    assert offences(plain_opens, package_modules()) == []


def test_every_listed_module_still_opens_something() -> None:
    found = {module.name for module in package_modules() if any(_opens(module))}
    assert PLAIN.keys() - found == set()


def test_the_rule_bites() -> None:
    for text in ("open('x')", "import os\nos.open('x', 0)", "path.read_bytes()", "(a / b).read_text()"):
        assert offences(plain_opens, [snippet(text, "tarmac.node.sample")])
    assert not offences(plain_opens, [snippet("untrusted.read_bytes('x', 1)", "tarmac.node.sample")])


def plain_opens(module: Module) -> Iterator[str]:
    """Opens that no list allows."""
    if module.name.startswith(PLACES) and module.name not in PLAIN:
        yield from _opens(module)


def _opens(module: Module) -> Iterator[str]:
    for dotted, call in module.calls():
        name = dotted or (f".{call.func.attr}" if isinstance(call.func, ast.Attribute) else "")
        if not name.startswith("untrusted.") and (name in OPENING or name.endswith(METHODS)):
            yield f"line {call.lineno}: {name}: node/files/untrusted.py opens what a run can write"
