"""Finds the log policies that match a line of a failed run's logs on this node. Called by `runner`.

A child process searches, since a pattern may take forever: matches after the time limit are lost.
"""

from __future__ import annotations

import json
import os
import re
import signal
import time
from contextlib import suppress
from typing import Any, Dict, Iterator, List, NoReturn, Pattern, Sequence

from tarmac.node.attempt.document import LogPattern
from tarmac.node.files import untrusted
from tarmac.node.kernel.handles import closing
from tarmac.node.noderun import NodeRun

PATIENCE_S = 10.0
LONGEST_LINE_BYTES = 4096
_CHUNK_BYTES = 1 << 20
_SHOWN_CHARACTERS = 500
_ANSWER_BYTES = 65536


def log_matches(run: NodeRun) -> List[Dict[str, Any]]:
    """The first line of each policy, in the form of the event `ended`."""
    policies = run.document.log_policies
    logs = [run.setup_log, *(worker.log for worker in run.workers)]
    listen, say = os.pipe()
    child = run.children.fork(lambda: _be_searcher(policies, logs, run.node_name, say), aside=True)
    os.close(say)
    answers = _listen(run, listen)
    run.children.end_aside(child)
    found = [json.loads(answer) for answer in answers]
    if not found or "over" not in found[-1]:
        searched = f"the logs on {run.node_name} were not searched to their end in {PATIENCE_S:g} s"
        run.events.notice(f"its log policies: {searched}")
    return [each for each in found if "policy" in each]


def _listen(run: NodeRun, handle: int) -> List[bytes]:
    """The complete lines before the end of the pipe, or before the time limit."""
    answer, due = b"", time.monotonic() + PATIENCE_S
    with closing(handle):
        while time.monotonic() < due:
            if run.wake_channel.wait(due, also=handle):
                if not (piece := os.read(handle, _ANSWER_BYTES)):
                    break
                answer += piece
    return answer.split(b"\n")[:-1]


def _be_searcher(policies: Sequence[LogPattern], logs: Sequence[str], node: str, say: int) -> NoReturn:
    """In the child process: report each policy with a match, then the end of the search."""
    signal.pthread_sigmask(signal.SIG_SETMASK, [])
    try:
        for number, line in search(policies, logs):
            policy = policies[number]
            match = {"policy": policy.label, "node": node, "line": line, "action": policy.action}
            os.write(say, json.dumps(match).encode() + b"\n")
        os.write(say, b'{"over": true}\n')
    finally:
        os._exit(0)


def search(policies: Sequence[LogPattern], logs: Sequence[str]) -> Iterator["tuple[int, str]"]:
    """The number and the first matching line of each policy; invalid patterns are ignored."""
    left: Dict[int, Pattern[str]] = {}
    for number, policy in enumerate(policies):
        with suppress(re.error, OverflowError, RecursionError):
            left[number] = re.compile(_bare(policy.pattern))
    for log in logs:
        for line in _lines(log) if left else ():
            for number in [number for number, pattern in left.items() if pattern.search(line)]:
                del left[number]
                yield number, line[:_SHOWN_CHARACTERS]


def _bare(pattern: str) -> str:
    """The pattern without `.*` at its ends, which adds no match to a line but takes long."""
    while pattern.startswith(".*") and pattern[2:3] not in ("?", "+"):
        pattern = pattern[2:]
    while pattern.endswith(".*") and (len(pattern) - 2 - len(pattern[:-2].rstrip("\\"))) % 2 == 0:
        pattern = pattern[:-2]
    return pattern


def _lines(log: str) -> Iterator[str]:
    """The lines of a log, including overwritten ones; long lines are cut."""
    try:
        handle = untrusted.open_to_read(log)
    except OSError:
        return
    with closing(handle):
        rest = b""
        for chunk in _chunks(handle):
            *lines, rest = re.split(rb"[\r\n]", rest + chunk)
            rest = rest[:LONGEST_LINE_BYTES]
            yield from (line[:LONGEST_LINE_BYTES].decode("utf-8", "replace") for line in lines)
        yield rest.decode("utf-8", "replace")


def _chunks(handle: int) -> Iterator[bytes]:
    """The content of a file without its holes: the runner may free the middle of a long log."""
    offset = 0
    while True:
        with suppress(OSError):
            offset = os.lseek(handle, offset, os.SEEK_DATA)
        chunk = os.pread(handle, _CHUNK_BYTES, offset)
        if not chunk:
            return
        offset += len(chunk)
        yield chunk.strip(b"\0") if chunk.startswith(b"\0") or chunk.endswith(b"\0") else chunk
