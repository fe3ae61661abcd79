"""Stage: stores the code of accepted runs, and queues them. Run by the stage loop.

Idempotent: a snapshot is named by its content, so staging after a crash finds it again. Repositories are
fetched beside the pass (`Fetches`), which collects the outcomes.
"""

import logging
from collections.abc import Callable, Collection, Sequence
from concurrent.futures import Future, ThreadPoolExecutor

from tarmac.control.decisions import steps
from tarmac.control.state.control_state import ControlState
from tarmac.model.changes import RunStep
from tarmac.model.errors import InvalidInput, TarmacError, Unavailable
from tarmac.model.ports import FetchesCode, StagedCode
from tarmac.model.progress import Cause, CauseCode, Outcome
from tarmac.model.run import Run
from tarmac.model.secret import deploy_key
from tarmac.model.spec import Repository

log = logging.getLogger(__name__)


_MOST_AT_ONCE = 16
"""The number of repositories fetched at the same time; the same one is never fetched twice at once."""

_Outcome = StagedCode | TarmacError


class Fetches:
    """Fetches repositories, each in its own thread, so that slow ones delay no others.

    Stores their outcomes until the stage loop, the one thread that uses it, takes them. Nothing here is
    durable: a run whose fetch is lost is still pending, and the next pass fetches its repository again.
    """

    def __init__(self, store: FetchesCode, *, ready: Callable[[], None]) -> None:
        self._store = store
        self._ready = ready
        self._run_ids: frozenset[str] = frozenset()
        self._begun: dict[str, tuple[str, Future[_Outcome]]] = {}
        self._threads = ThreadPoolExecutor(_MOST_AT_ONCE, thread_name_prefix="tarmac-fetch")

    def want(self, run_ids: Collection[str]) -> None:
        """Cancel every fetch except those of these runs, which still wait for their code."""
        self._run_ids = frozenset(run_ids)
        over = [run_id for run_id, (_, fetch) in self._begun.items() if fetch.done()]
        for run_id in set(over) - self._run_ids:
            del self._begun[run_id]

    def outcome(self, run: Run, code: Repository) -> _Outcome | None:
        """The outcome of the fetch for this run, returned once; None while it runs or waits."""
        begun = self._begun.get(run.id)
        if begun is not None:
            return self._begun.pop(run.id)[1].result() if begun[1].done() else None
        busy = [url for url, fetch in self._begun.values() if not fetch.done()]
        if code.url not in busy and len(busy) < _MOST_AT_ONCE:
            fetch = self._threads.submit(self._fetch, run, code)
            self._begun[run.id] = code.url, fetch
            fetch.add_done_callback(lambda _: self._ready())
        return None

    def close(self) -> None:
        """Cancel all running fetches and wait for their end."""
        self.want(())
        self._threads.shutdown()

    def _fetch(self, run: Run, code: Repository) -> _Outcome:
        try:
            return self._store.fetch(
                code, lambda: run.id in self._run_ids, secret=deploy_key(run.spec.secrets)
            )
        except TarmacError as problem:
            return problem


def stage_pass(control: ControlState, fetches: Fetches | None = None) -> None:
    """Stage every pending run; a run whose code cannot be read ends as failed, with the reason.

    Without `fetches`, the pass itself fetches repositories. If code cannot be stored now (because of a full
    disk, for example), the next pass tries again and other runs are not delayed: `control.code_failures` has
    the reason.
    """
    with control.lock:
        pending = sorted(control.run_cache().pending.values(), key=lambda run: run.id)
    together = _together(pending)
    if fetches is not None:
        fetches.want([run.id for run, _ in together])
    failures = {run.id: control.code_failures[run.id] for run in pending if run.id in control.code_failures}
    for run, others in together:
        code = _code(control, run, fetches)
        if isinstance(code, Unavailable):
            if failures.get(run.id) != str(code):
                log.warning("the code of %s: %s", run.id, code)
            failures[run.id] = str(code)
        elif code is not None:
            failures.pop(run.id, None)
            steps_of_all = [_staged(control, each, code) for each in (run, *others)]
            control.commit(steps_of_all, lease=control.serving, whole=True)
    control.code_failures = failures


def _together(pending: Sequence[Run]) -> list[tuple[Run, Sequence[Run]]]:
    """Each run with those that get the same code in the same transaction: the members of its array."""
    found: dict[str, list[Run]] = {}
    for run in pending:
        found.setdefault(run.array_id or run.id, []).append(run)
    return [(runs[0], runs[1:]) for runs in found.values()]


def _code(control: ControlState, run: Run, fetches: Fetches | None) -> StagedCode | TarmacError | None:
    """The snapshot of a run's code, or the error; None if it is not ready yet."""
    code = run.spec.code
    assert code is not None, "runs without code are accepted as queued"
    try:
        if isinstance(code, Repository) and fetches is not None:
            return fetches.outcome(run, code)
        return control.code.stage(code)
    except (InvalidInput, Unavailable) as error:
        return error
    except Exception as error:  # an error caused by its code must delay no other run
        known = control.code_failures.get(run.id)
        problem = Unavailable(f"it cannot be copied: {type(error).__name__}: {error}")
        if known != str(problem):
            log.exception("the code of %s", run.id)
        return problem


def _staged(control: ControlState, run: Run, code: StagedCode | TarmacError) -> RunStep:
    if isinstance(code, TarmacError):
        cause = Cause(code=CauseCode.CODE_UNREADABLE, message=str(code))
        return steps.finished(run, Outcome.FAILED, cause, control.clock.now())
    return steps.staged(run, code, control.clock.now())
