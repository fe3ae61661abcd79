"""The paths of an attempt directory, by the names of `protocol`. Called by runners and engines."""

from __future__ import annotations

import os

from tarmac.node.attempt import protocol


def make_directory(path: str) -> None:
    """Make a directory and its parents if they are missing; usually they exist."""
    try:
        os.mkdir(path)
    except (FileNotFoundError, FileExistsError):
        os.makedirs(path, exist_ok=True)


class AttemptPaths:
    """The paths of one attempt."""

    def __init__(self, directory: str) -> None:
        self.directory = os.path.abspath(directory)
        self.description = os.path.join(self.directory, protocol.ATTEMPT_FILE)
        self.ask = os.path.join(self.directory, protocol.ASK_FILE)
        self.failed = os.path.join(self.directory, protocol.FAILED_FILE)
        self.failed_leaving = os.path.join(self.directory, protocol.FAILED_LEAVING_FILE)
        self.logs = os.path.join(self.directory, protocol.LOGS)
        self.prepared = os.path.join(self.directory, protocol.PREPARED_FILE)
        self.placed = os.path.join(self.directory, protocol.PLACED_FILE)
        self.meeting = os.path.join(self.directory, protocol.MEETING_FILE)

    def node(self, name: str) -> NodePaths:
        """The paths of one node's part."""
        return NodePaths(os.path.join(self.directory, protocol.NODES, name))

    def root(self, node: str) -> str:
        """The container's writable layer on a node, if the attempt runs in an image; removed at the end."""
        return os.path.join(self.directory, "roots", node)

    def node_names(self) -> list[str]:
        """The nodes with a part on this disk."""
        try:
            return os.listdir(os.path.join(self.directory, protocol.NODES))
        except OSError:
            return []

    def log(self, worker: str) -> str:
        """The log of the worker ROLE.REPLICA.WORKER."""
        return os.path.join(self.logs, f"{worker}.log")

    def index(self, worker: str) -> str:
        """The time index of the log of a worker."""
        return os.path.join(self.logs, f"{worker}.idx")


class NodePaths:
    """The paths of one node's part."""

    def __init__(self, directory: str) -> None:
        self.directory = directory
        self.claim = os.path.join(directory, protocol.CLAIM_FILE)
        self.events = os.path.join(directory, protocol.EVENTS_FILE)
        self.heartbeat = os.path.join(directory, protocol.HEARTBEAT_FILE)
        self.utilization = os.path.join(directory, protocol.UTILIZATION_FILE)
        self.lease = os.path.join(directory, "lease")
        self.wake = os.path.join(directory, protocol.WAKE_FIFO)
        self.work = os.path.join(directory, protocol.WORK)
        self.files = os.path.join(directory, protocol.FILES)
        self.venv = os.path.join(directory, protocol.VENV)
        self.reports = os.path.join(directory, protocol.REPORTS_FILE)
        self.finished = os.path.join(directory, protocol.FINISHED_FILE)
        self.world = os.path.join(directory, "world")
        self.pause = os.path.join(directory, "pause")
        self.left = os.path.join(directory, protocol.LEFT_FILE)
        self.runner_log = os.path.join(directory, "runner.log")
        self.sync = os.path.join(directory, "sync.jsonl")
        self.sync_log = os.path.join(directory, "sync.log")

    def polls(self, worker: str) -> str:
        """The poll file of the worker ROLE.REPLICA.WORKER."""
        return os.path.join(self.directory, f"{protocol.POLL_PREFIX}{worker}")
