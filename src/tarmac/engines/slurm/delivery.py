"""Delivers an attempt to the site, submits its job exactly once, and makes it leave. Used by `SlurmEngine`.

First all files for its nodes are stored in the shared directory, then the job is submitted; after a crash or
a lost answer the engine looks for the job before it submits another. If two jobs exist anyway, the first to
begin makes a file, and the other exits.
"""

import json
import logging
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from threading import Lock

from tarmac.engines.attempts import writing
from tarmac.engines.attempts.aggregate_outcome import PartState
from tarmac.engines.attempts.view import AttemptView, NodeView
from tarmac.engines.hosts import installing
from tarmac.engines.hosts.host import Host, HostStoreFiles
from tarmac.engines.hosts.installing import Supplies
from tarmac.engines.slurm import files, observing
from tarmac.engines.slurm.access import SlurmAccess
from tarmac.engines.slurm.queue import Queue
from tarmac.engines.slurm.script import SlurmRequest
from tarmac.engines.slurm.settings import SlurmSettings
from tarmac.model.errors import Unavailable
from tarmac.model.lifecycle import LeaveRequest
from tarmac.node.attempt import sealed
from tarmac.node.attempt.protocol import HEARTBEAT_LEASE_S, KEY_VARIABLE
from tarmac.node.starting import Installation

LONGEST_END_S = 300.0
"""The maximum wait for runners of an ended job while they show signs of life."""

REMEMBERED = 4096
MOST_SCRIPT_BYTES = 1 << 16
COMPILE = ("-I", "-S", "-m", "compileall", "-q", "--invalidation-mode=unchecked-hash")
"""The directory of a version is named after its content, so no check of file times is needed."""

COMPILE_S = 60.0

log = logging.getLogger(__name__)


class Delivery:
    """Submits attempts, one at a time; passes on requests to leave, fences and takes back. Thread-safe."""

    def __init__(
        self, settings: SlurmSettings, host: Host, access: SlurmAccess, queue: Queue, supplies: Supplies
    ) -> None:
        self._settings = settings
        self._host = host
        self._access = access
        self._queue = queue
        self._code = supplies.code
        self._secrets = supplies.secrets
        sidecar = supplies.sidecar
        self._files = installing.collect(supplies.packages)
        self.version = host.layout.home / "node" / installing.version_of(self._files)
        """The directory of the current version of the delivered packages, named after its content."""
        self.installation = Installation(settings.python, str(self.version / installing.RUNNER))
        self._send = sidecar.send if sidecar is not None else None
        self.store_files: HostStoreFiles | None = None
        """The files of the artifact store at the site; None if its nodes use the server's own."""
        if sidecar is not None and sidecar.at_site:
            self.store_files = HostStoreFiles(host, Path(sidecar.store))
        self._lock = Lock()
        self._prepared = False
        self._submitted_at: dict[str, float] = {}

    def submitted_after(self, attempt_id: str, moment: float) -> bool:
        """Whether this engine submitted it after that time of the monotonic clock."""
        return self._submitted_at.get(attempt_id, float("-inf")) > moment

    def deliver(self, request: SlurmRequest) -> None:
        """Submit an attempt without a job. Raises Unavailable or InvalidInput, like `Engine`."""
        with self._lock:
            try:
                self._deliver(request)
            except OSError as error:
                place = error.filename or self._host.layout.home
                raise Unavailable(f"{place}: {error.strerror}", hint=writing.hint(error)) from None

    def _deliver(self, request: SlurmRequest) -> None:
        directory = request.directory
        self.prepare()
        attempt = request.document
        code_place = str(self._host.layout.home / "code")
        installing.bring_code(self._host, attempt.code, self._code, place=code_place)
        if self.store_files is not None and self._send is not None and attempt.sync is not None:
            self._send(self.store_files, attempt.run_id, attempt.sync.inputs)
        script = directory / files.SCRIPT
        scripts = {files.SCRIPT: request.script, **request.login_scripts}
        texts = {name: text.encode() for name, text in scripts.items()}
        content = {**writing.attempt_files(request.document), **texts}
        if not self._host.make_directory(directory, content):  # an earlier call: did it submit a job?
            if self._has_job(request.attempt_id):
                return
            found = self._queue.named(request.attempt_id)
            if found is not None:
                self._note(request, found)
                return
            self._host.write(script, request.script.encode())
        job_id = self._take_over(request)
        if job_id is None:
            variables = self._seal_secrets(request)
            job_id = self._access.submit(request, variables) or self._queue.named(request.attempt_id)
        if job_id is None:
            raise Unavailable("sbatch gave no id of a job, and there is none of that name")
        self._note(request, job_id)

    def _take_over(self, request: SlurmRequest) -> str | None:
        """Pass the attempt to the job with the nodes of the previous turn; its id, or None without one."""
        seen = self._known_directory(request.follows) if request.follows else None
        if seen is None:
            return None
        directory = self._host.directory(request.follows)
        job = self._queue.now(fresh=True).job(request.follows, observing.job_id(seen))
        script = self._host.read(directory, files.SCRIPT, offset=0, limit=MOST_SCRIPT_BYTES)
        if job is None or job.state != "RUNNING" or not request.is_like(script or b""):
            return None
        own = f"{request.directory}\n".encode()
        return job.id if self._host.write_once(directory / files.NEXT, own) == own else None

    def _has_job(self, attempt_id: str) -> bool:
        """Whether its directory names a job."""
        directory = self._known_directory(attempt_id)
        return directory is not None and (
            observing.submitted(directory) is not None or observing.begun(directory) is not None
        )

    def _known_directory(self, attempt_id: str) -> Path | None:
        """The directory with the reports of an attempt."""
        self._host.refresh([attempt_id])
        return self._host.seen.attempt(attempt_id)

    def prepare(self) -> None:
        """Make the directories at the site, once. Raises Unavailable."""
        if self._prepared:
            return
        try:
            self._host.prepare()
            if not self._host.use(self.version):
                self._host.make_directory(self.version, self._files)
                if self._host.runs_commands:
                    self._compile()
        except OSError as error:
            home = self._host.layout.home
            raise Unavailable(f"{home} cannot be used: {error.strerror}") from None
        self._prepared = True

    def _compile(self) -> None:
        """Compile the delivered packages once, since otherwise the first nodes would do it concurrently."""
        command = [self._settings.python, *COMPILE, str(self.version)]
        try:
            self._host.run(command, variables={}, timeout_s=COMPILE_S)
        except Unavailable as error:
            log.warning("the runner is not compiled at %s: %s", self.version, error)

    def _seal_secrets(self, request: SlurmRequest) -> Mapping[str, str]:
        """Store the sealed values in the directory; returns the variable with their key, for the job only."""
        if not request.secrets:
            return {}
        file = sealed.seal(self._secrets(request.secrets))
        self._host.write(request.directory / file.name, file.content, private=True)
        return {KEY_VARIABLE: file.key}

    def _note(self, request: SlurmRequest, job_id: str) -> None:
        if len(self._submitted_at) >= REMEMBERED:
            self._submitted_at.clear()
        self._submitted_at[request.attempt_id] = time.monotonic()
        self._host.write(request.directory / files.SUBMITTED, job_id.encode())

    # --- requests to leave -----------------------------------------------------------------------
    # Callers hold the lock of the view. Every call may be repeated, after a crash or a lost connection at any
    # point. All raise Unavailable.

    def pass_on(self, view: AttemptView, request: LeaveRequest) -> None:
        """Store a request to leave, unless a stronger one exists."""
        if not writing.replaces(request, view.leave_request()):
            return
        content = json.dumps(writing.pending_request(request)).encode()
        with self._doing(view, f"pass on the {request} to"):
            nodes = [node.node for node in view.nodes]
            self._host.request_leave(self._host.directory(view.attempt_id), content, nodes)

    def take_back(self, view: AttemptView) -> bool:
        """Prevent all jobs of the attempt from beginning; False if one has begun."""
        with self._doing(view, "take back"):
            path = self._host.directory(view.attempt_id) / files.BEGUN
            found = self._host.write_once(path, observing.TAKEN_BACK.encode())
        return found.decode(errors="replace").strip() == observing.TAKEN_BACK

    def end_survivors(self, view: AttemptView, state: str) -> None:
        """Stop the remaining runners of an attempt whose job has ended, as on a node lost by Slurm.

        The state of the job is stored first: the exits after this stop are not the attempt's outcome.
        """
        lives = _started(view)
        if not lives and state != observing.REQUEUED:
            return
        if observing.over_as(view.directory) is None and not view.is_to_end:
            with self._doing(view, "write to"):
                self._host.write(self._host.directory(view.attempt_id) / files.OVER, state.encode())
        if lives:
            self.pass_on(view, LeaveRequest.STOP)

    def may_say_more(self, view: AttemptView, state: str, *, over_s: float, lag_s: float) -> bool:
        """Whether to wait for the runners of an attempt whose job ended `over_s` ago.

        Their reports may take `lag_s` to arrive. Runners on a node that Slurm lost contact with are asked to
        stop and waited for while there are signs of life: no other attempt begins beside them.
        """
        if over_s < lag_s / 5:
            return True
        self.end_survivors(view, state)
        silent = all(node.still_s() > HEARTBEAT_LEASE_S for node in _started(view))
        return over_s < lag_s or (not silent and over_s < LONGEST_END_S)

    def fence(self, view: AttemptView) -> None:
        """Prevent every unclaimed node from starting."""
        unclaimed = [node.node for node in view.nodes if node.facts.state is PartState.UNCLAIMED]
        if unclaimed:
            with self._doing(view, "fence"):
                self._host.fence(self._host.directory(view.attempt_id), unclaimed)
            view.refresh()

    @contextmanager
    def _doing(self, view: AttemptView, what: str) -> Iterator[None]:
        """Report an OSError in a change of an attempt as Unavailable; refresh its view after a success."""
        try:
            yield
        except OSError as error:
            message = f"cannot {what} attempt {view.attempt_id}: {error.strerror}"
            raise Unavailable(message, hint=writing.hint(error)) from None
        self._host.refresh([view.attempt_id])


def _started(view: AttemptView) -> list[NodeView]:
    """The nodes whose runners have begun and, as far as is known, have not ended."""
    return [node for node in view.nodes if node.facts.state is not PartState.UNCLAIMED and not node.over]
