"""The runner's end of the sidecar that stores artifacts: started only if there are files to store.

Called by the hooks `artifacts` and `watch`, and at the end of an attempt by `runner`. The sidecar is a
separate process because the runner uses the standard library alone; it ends with the runner, which restarts
it if it is killed. A run that writes no artifact costs only a check of empty directories.
"""

from __future__ import annotations

import json
import os
import time
from contextlib import suppress
from typing import Any, Mapping, Optional, Sequence

from tarmac.node.attempt.document import Launch, NodeLaunch
from tarmac.node.attempt.events import EventLog
from tarmac.node.attempt.exit_outcome import Exit
from tarmac.node.attempt.protocol import NodePaths
from tarmac.node.files import untrusted
from tarmac.node.kernel import procfs
from tarmac.node.kernel.namespaces import ProcessNamespace
from tarmac.node.processes.children import Child, Children
from tarmac.node.processes.spawn import CannotStart, Command
from tarmac.node.processes.wake_channel import WakeChannel

_STARTS_AT_THE_END = 5
_START_AGAIN_S = 5.0
_FACTS = ("files", "bytes", "step", "left_out")


class SidecarProcess:
    """Stores the artifacts of one node's part. `seen` are the paths by which the workers know them."""

    def __init__(
        self,
        document: Launch,
        part: NodeLaunch,
        node: NodePaths,
        *,
        events: EventLog,
        wake_channel: WakeChannel,
        children: Children,
        namespace: Optional[ProcessNamespace] = None,
    ) -> None:
        self.seen = dict(part.artifacts)
        self._document = document
        self._part = part
        self._node = node
        self._events = events
        self._wake_channel = wake_channel
        self._children = children
        self._namespace = namespace
        self._child: Optional[Child] = None
        self._say = -1
        self._news = untrusted.Lines(node.sync)
        now = time.monotonic()
        every_s = document.sync.every_s if document.sync is not None else {}
        self._due = {kind: now + every_s[kind] for kind in part.artifacts if kind in every_s}
        self._next_due = min(self._due.values(), default=float("inf"))

    def look(self) -> None:
        """Start the sidecar if there is work, and read its reports; called while the runner is awake."""
        if self._child is not None:
            self.take_news()
            if not self._child.left:
                return
            self._release()
            self._next_due = time.monotonic() + _START_AGAIN_S
        now = time.monotonic()
        if now < self._next_due:
            return
        due = [kind for kind, due_at in self._due.items() if due_at <= now]
        if self._something(due):
            self._start()
        else:
            assert self._document.sync is not None
            self._due.update({kind: now + self._document.sync.every_s[kind] for kind in due})
            self._next_due = min(self._due.values())

    def command(self, doing: str) -> list[str]:
        """The argv of the sidecar."""
        assert self._document.sync is not None
        attempt = os.path.dirname(os.path.dirname(self._node.directory))
        seen = [f"{kind}={path}" for kind, path in self.seen.items()]
        return [*self._document.sync.command, doing, attempt, self._part.node, *seen]

    def finish(
        self, exits: Sequence[Exit], torn: Optional[Mapping[str, int]], *, at: float, untouched: bool
    ) -> None:
        """Store all files of the workers, which ended at `at`, or notify the run of a failure; then return.

        `torn` are the incomplete files of the checkpoint, each with its size when it was opened (see `torn`);
        None: unknown. `untouched`: the directories are known to be empty.
        """
        if self._document.sync is None or (self._child is None and not exits):
            return
        if self._child is None and (untouched or not self._something(list(self._part.artifacts))):
            return
        end = {"at": at, "clean": all(item.good for item in exits), "torn": torn}
        for _ in range(_STARTS_AT_THE_END):
            if self._child is None or self._child.left:
                self._release()
                self._start()
            if self._child is None:
                break
            with suppress(OSError):  # it ended: it is restarted
                os.write(self._say, json.dumps({"end": end}).encode() + b"\n")
            self._await(self._child)
            if self._child.exit_code is not None:
                break
        if self._child is None or self._child.exit_code != 0:
            places = ", ".join(sorted({os.path.dirname(path) for path in self._part.artifacts.values()}))
            where = f"it stays on {self._part.node} in {places}"
            self._events.notice(f"what changed of the artifacts is not in the store: {where}")
        self._release()

    def take_news(self) -> None:
        """Pass on the sidecar's new reports."""
        try:
            lines = self._news.added()
        except OSError:
            return  # no reports yet, or a worker replaced the file
        for line in lines:
            with suppress(ValueError, KeyError, TypeError):
                self._pass_on(untrusted.parse_object(line))

    def _pass_on(self, message: dict[str, Any]) -> None:
        facts = {name: message[name] for name in _FACTS if message.get(name) not in (None, [])}
        if "synced" in message:
            self._events.append("artifact", id=message["synced"], **facts)
        elif "restored" in message:
            self._events.append("artifact_restored", saved_at=message["restored"], **facts)
        elif "kept" in message:
            self._events.append("artifact_kept", saved_at=message["kept"], **facts)
        elif "notice" in message:
            self._events.notice(f"artifacts ({message['notice']}): {message['why']}")
        elif "placed" in message:
            self._events.append("artifact_placed", id=message["placed"])
        elif "failed" in message:
            again = f"; tried again in {message['again_s']:g} s" if message["again_s"] is not None else ""
            self._events.notice(f"artifacts ({message['failed']}): {message['why']}{again}")

    def _something(self, kinds: Sequence[str]) -> bool:
        return any(_holds_anything(self._part.artifacts[kind]) for kind in kinds)

    def _start(self) -> None:
        hear, say = os.pipe()
        os.set_inheritable(say, False)
        env = dict(os.environ)
        if self._namespace is not None:
            # It searches for writing processes, on all nodes that this machine represents.
            os.set_inheritable(self._namespace.proc, True)
            env[procfs.MACHINE_VARIABLE] = f"/proc/self/fd/{self._namespace.proc}"
        try:
            log, reports = self._node.sync_log, self._node.sync
            command = Command(self.command("sync"), env, "/", log, stdout=reports, stdin=hear)
            self._child = self._children.start(command, aside=True)
            self._say = say
        except (CannotStart, OSError) as problem:
            os.close(say)
            self._next_due = time.monotonic() + 12 * _START_AGAIN_S
            self._events.notice(f"artifacts cannot be kept here: {problem}")
        finally:
            os.close(hear)
            if self._namespace is not None:
                os.set_inheritable(self._namespace.proc, False)

    def _await(self, child: Child) -> None:
        while not child.left:
            self._wake_channel.wait()
            self._children.reap()
            self.take_news()
        self.take_news()

    def _release(self) -> None:
        if self._say >= 0:
            os.close(self._say)
        self._child, self._say = None, -1


def _holds_anything(directory: str) -> bool:
    with suppress(OSError), os.scandir(directory) as entries:
        return any(True for _ in entries)
    return False
