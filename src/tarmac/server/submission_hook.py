"""The site's submission hook: a program of the administrator's own that sees each submission.

It reads a question (JSON) and answers `{}`, a rejection, or changes from a short list. It is called by
`submitting.submissions`, in threads of its own: a slow hook delays only the submissions that wait for it. A
hook that fails rejects, and the server's log has the details.
"""

import logging
import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, TypeVar

import msgspec

from tarmac.dialects.native.reader import written
from tarmac.dialects.overrides import override
from tarmac.dialects.quantities import written_duration
from tarmac.model.codec import replace
from tarmac.model.errors import InvalidInput, Refused, Unavailable
from tarmac.model.spec import RunSpec
from tarmac.node.files.secrecy import LEAST_INLINE, hidden_tree, keys_among
from tarmac.node.processes.programs import BrokenProgram, output_of
from tarmac.server.settings import SubmissionSettings

CHANGES = ("cluster", "pool", "priority", "labels", "time_limit", "max_slots")
"""The keys of an answer that change a submission."""

ANSWERS = ("reject", "reason", *CHANGES)
"""All keys of an answer."""

MOST_RUNNING = 8
MOST_WAITING = 200
"""Maximum submissions that wait for the hook; any further one is refused for now."""

_LONGEST_REASON = 500
log = logging.getLogger(__name__)

T = TypeVar("T")


class SubmissionHook:
    """The hook of a server, and the threads in which it is called, several at once. Thread-safe."""

    def __init__(self, settings: SubmissionSettings) -> None:
        self._settings = settings
        self._threads = ThreadPoolExecutor(MOST_RUNNING, thread_name_prefix="tarmac-hook")
        self._waiting = threading.BoundedSemaphore(MOST_WAITING)

    def begin(self, call: Callable[[], T]) -> Future[T]:
        """Run a call in one of the threads; raises Unavailable if too many wait."""
        if not self._waiting.acquire(blocking=False):
            raise Unavailable("too many submissions wait for the site's hook", hint="try again soon")
        future = self._threads.submit(call)
        future.add_done_callback(lambda _: self._waiting.release())
        return future

    def changed(self, spec: RunSpec, *, user: str, clone: bool, dry_run: bool) -> RunSpec:
        """The spec with the hook's changes; raises Refused if the hook rejects it, or fails."""
        question = question_of(spec, user=user, clone=clone, dry_run=dry_run)
        argv, timeout_s = self._settings.hook, self._settings.hook_timeout_s
        try:
            return answered(spec, output_of(argv, question, timeout_s=timeout_s))
        except BrokenProgram as broken:
            log.error("the submission hook %s: %s %s", argv[0], broken, broken.details)
            raise Refused(
                f"{spec.name} is not accepted, because the site's submission hook fails: {broken}",
                hint="the administrator of this server finds the details in its log: tarmac server logs",
            ) from None


def question_of(spec: RunSpec, *, user: str, clone: bool, dry_run: bool) -> bytes:
    """The question about a submission, as JSON; texts that may be secrets are masked."""
    keys = [key.value for key in keys_among(spec.environment.variables) if len(key.value) >= LEAST_INLINE]
    fields = {name: value for name, value in written(spec).items() if name != "notify"}
    question = {
        "user": user,
        "project": spec.project,
        "cluster": spec.target.cluster,
        "pool": spec.target.pool,
        "labels": spec.labels,
        "slots": spec.slots,
        "kind": "experiment" if spec.search else "array" if spec.array else "run",
        "clone": clone,
        "dry_run": dry_run,
        "spec": hidden_tree(fields, keys),
    }
    return msgspec.json.encode(question)


def answered(spec: RunSpec, output: bytes) -> RunSpec:
    """The spec with the changes in an answer. Raises Refused for a rejection, BrokenProgram for no answer."""
    try:
        answer = msgspec.json.decode(output)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise BrokenProgram("its answer is not JSON", f"({error}): {output[:_LONGEST_REASON]!r}") from None
    if not isinstance(answer, dict):
        raise BrokenProgram("its answer is no JSON object", repr(answer)[:_LONGEST_REASON])
    if unknown := [key for key in answer if key not in ANSWERS]:
        named = ", ".join(f"{key!r:.50}" for key in unknown)
        raise BrokenProgram(f"its answer has unknown keys: {named} (known: {', '.join(ANSWERS)})")
    given = {key: value for key, value in answer.items() if value is not None}
    reject, reason = (_text(given, key) for key in ("reject", "reason"))
    if reject is not None:
        raise Refused(f"the site's submission hook rejects {spec.name}: {reject}")
    return _changed(spec, given, f": {reason}" if reason else "")


def _text(given: dict[str, Any], key: str) -> str | None:
    value = given.pop(key, None)
    if value is not None and not isinstance(value, str):
        raise BrokenProgram(f"its answer is wrong: {key}: a text is expected, not {value!r:.60}")
    return None if value is None else " ".join(value.split())[:_LONGEST_REASON]


def _changed(spec: RunSpec, given: dict[str, Any], reason: str) -> RunSpec:
    most = given.pop("max_slots", None)
    if spec.rehearsal is not None:  # it stays on its own cluster
        given = {key: value for key, value in given.items() if key not in ("cluster", "pool")}
    try:
        changed = override(spec, given) if given else spec
    except InvalidInput as error:
        raise BrokenProgram(f"its answer is wrong: {error}") from None
    if most is not None:
        changed = _limited(changed, most, reason)
    before, after = _shown(spec), _shown(changed)
    changes = [name for name in after if after[name] != before[name]]
    sentences = tuple(f"the site's hook set {name} to {after[name]}{reason}" for name in changes)
    return replace(changed, hook_changes=sentences)


def _limited(spec: RunSpec, most: Any, reason: str) -> RunSpec:
    """The spec with at most this number of slots at once, over all trials or members."""
    if type(most) is not int or most < 1:
        raise BrokenProgram(f"its answer is wrong: max_slots: a number from 1 is expected, not {most!r:.60}")
    if spec.slots > most:
        asks = f"it requests {spec.slots} slots, and {most} are allowed{reason}"
        raise Refused(f"the site's submission hook rejects {spec.name}: {asks}")
    if spec.search is not None:
        most = min(most, spec.search.max_slots or most)
        return replace(spec, search=replace(spec.search, max_slots=most))
    if spec.array is not None and spec.slots:
        most //= spec.slots
        return replace(spec, array=replace(spec.array, at_most=min(most, spec.array.at_most or most)))
    return spec


def _shown(spec: RunSpec) -> dict[str, str]:
    """The values that a hook may change, as texts for people."""
    limit_s = spec.time_limit_s
    return {
        "cluster": spec.target.cluster or "any",
        "pool": spec.target.pool or "any",
        "priority": str(spec.priority),
        "labels": ", ".join(f"{key}={value}" for key, value in sorted(spec.labels.items())),
        "time limit": "none" if limit_s is None else written_duration(limit_s),
        "most slots at once": str(spec.search.max_slots if spec.search else None),
        "most members at once": str(spec.array.at_most if spec.array else None),
    }
