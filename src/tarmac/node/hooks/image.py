"""Hook: the container of an attempt that runs in an image. Called by `runner`.

The image is fetched where the node has it not, by a process of its own: that loads much that no runner
needs, and can be ended at any moment. Then the root is made. From here on steps, hooks and workers start
in it, by the runner as ever: it supervises them itself, they end with it, and nothing else has to be running.
"""

from __future__ import annotations

import json
import os
import signal
from contextlib import suppress
from typing import Any, NoReturn, Optional

from tarmac.node.attempt import exit_outcome, words
from tarmac.node.attempt.document import ContainerPart
from tarmac.node.container import devices, root
from tarmac.node.container.entry import Container
from tarmac.node.container.failures import ImageProblem
from tarmac.node.container.images import Image, Images
from tarmac.node.container.reference import ALWAYS
from tarmac.node.files import untrusted
from tarmac.node.files.digests import digest
from tarmac.node.kernel.mountplan import Bind
from tarmac.node.leave import check_leave, outcome_of
from tarmac.node.noderun import Leave, NodeRun

_ANSWER_BYTES = 65536
_KEY_CHARACTERS = 32


def enter_image(run: NodeRun) -> None:
    """Make the container; raises Leave when that fails, or when the attempt is asked to leave."""
    part = run.document.container
    if part is None:
        return
    check_leave(run)
    images = Images(part.images)
    try:
        image = None if part.pull == ALWAYS else images.find(part.image)
        if image is None:
            _pull(run, part)
            image = images.find(part.image)
        if image is None:
            raise ImageProblem("removed", f"{part.image} was removed while the run began")
        if image.digest:
            run.lock_handles.append(images.use(image.digest))
    except ImageProblem as problem:
        raise _failed(run, words.IMAGE_PULL, problem.message, problem.hint) from None
    run.events.append("image", name=image.name, digest=image.digest)
    try:
        run.container = _make(run, part, images, image)
    except (root.CannotMake, OSError) as error:
        hint = "`--no-container` runs the command on the node itself"
        raise _failed(
            run, words.SETUP_FAILED, f"a container of {part.image} cannot be made: {error}", hint
        ) from None


def leave_image(run: NodeRun) -> None:
    """Let go of the container: nothing runs in it any more. What it wrote beside its directories goes."""
    if run.document.container is None:
        return
    if run.container is not None:
        run.container.close()
    with suppress(OSError):
        untrusted.remove_tree(run.attempt.root(run.part.node))


def _make(run: NodeRun, part: ContainerPart, images: Images, image: Image) -> Container:
    """Make the root on the attempt's disk; in memory, where that disk cannot hold one."""
    slots = sorted({slot for worker in run.part.workers for slot in worker.slots})
    found = devices.of_slots(slots)
    request = root.Root(
        base=images.layers if image.digest else "/",
        layers=tuple(reversed(image.layers)),
        place=run.attempt.root(run.part.node),
        binds=tuple(_binds(run, found)),
        devices=found.devices,
        shared_memory_bytes=part.shared_memory_bytes,
    )
    env = {**image.env, **found.env(image.env)}
    key = digest(image.digest or image.layers[0])[:_KEY_CHARACTERS]
    try:
        return root.make(request, env, found.numbers, key)
    except root.CannotMake as problem:
        container = root.make(request._replace(in_memory=True), env, found.numbers, key)
        run.events.append(
            "notice",
            text=f"what is written beside the run's own directories is held in memory ({problem})",
        )
        return container


def _binds(run: NodeRun, found: devices.Devices) -> list[Bind]:
    """What of the node is seen in the container, the outer before the inner."""
    document = run.document
    own = [run.node.directory, *run.part.artifacts.values()]
    if document.environments is not None:
        os.makedirs(document.environments, mode=0o700, exist_ok=True)
        own.append(document.environments)
    binds = [Bind(path, path) for path in dict.fromkeys(own) if os.path.isdir(path)]
    if document.sdk is not None:
        binds.append(Bind(document.sdk, document.sdk, read_only=True))
    binds += [Bind(path, target, read_only=True) for path, target in found.files]
    return binds + run.shown


def _pull(run: NodeRun, part: ContainerPart) -> None:
    """Fetch the image in a process of its own; raises ImageProblem, or Leave when the attempt is asked to."""
    credentials = None
    if part.credentials is not None:
        credentials = run.secret_values.get(part.credentials)
    hear, say = os.pipe()
    child = run.children.fork(lambda: _be_puller(run, part, credentials, say))
    os.close(say)
    try:
        while not child.left:
            run.wake_channel.wait(run.leave_due)
            run.log_room.look()
            run.children.reap()
            if not child.left:
                try:
                    check_leave(run)
                except Leave:
                    os.kill(child.pid, signal.SIGKILL)
                    raise Leave(outcome_of(run)) from None
        answer = _parsed(os.read(hear, _ANSWER_BYTES))
    finally:
        os.close(hear)
    if child.exit_code != 0 or answer is None:
        how = f"was ended by {child.signal}" if child.signal else f"exited with {child.exit_code}"
        raise ImageProblem("ended", f"the process that pulls {part.image} {how}")
    if answer:
        raise ImageProblem(answer["kind"], answer["message"], answer.get("hint"))


def _be_puller(run: NodeRun, part: ContainerPart, credentials: Optional[str], say: int) -> NoReturn:
    """In the child: fetch, and say how that went."""
    from tarmac.node.container.pulling import Puller  # noqa: PLC0415 - and a HTTP client, TLS, tar

    os.setsid()
    signal.pthread_sigmask(signal.SIG_SETMASK, [])
    puller = Puller(Images(part.images), lambda line: untrusted.append_text(run.setup_log, f"{line}\n"))
    answer: dict[str, Any] = {}
    try:
        puller.ensure(part.image, credentials=credentials, pull=part.pull)
    except ImageProblem as problem:
        answer = {"kind": problem.kind, "message": problem.message, "hint": problem.hint}
    except Exception as error:  # noqa: BLE001 - whatever it is, the run's end has to say it
        answer = {"kind": "fault", "message": f"pulling {part.image}: {type(error).__name__}: {error}"}
    os.write(say, json.dumps(answer).encode()[:_ANSWER_BYTES])
    os._exit(0)


def _parsed(answer: bytes) -> Optional[dict[str, Any]]:
    try:
        found = json.loads(answer)
    except ValueError:
        return None
    return found if isinstance(found, dict) else None


def _failed(run: NodeRun, code: str, message: str, hint: Optional[str]) -> Leave:
    """The end of an attempt that has no container; the other nodes learn of it."""
    whole = f"{message} ({hint})" if hint else message
    run.note_failure(exit_outcome.cause_of(code, f"{run.node_name}: {whole}", node=run.node_name))
    return Leave(exit_outcome.ExitOutcome(words.FAILED, run.failure_cause))
