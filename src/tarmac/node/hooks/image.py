"""Hook: the container of an attempt that runs in an image. Called by `runner`.

If the node lacks the image, a separate process fetches it: that process loads many modules that no runner
needs, and can be ended at any time. Then the hook makes the root. From here on the runner starts steps, hooks
and workers in the container; it supervises them itself, and they end with it, without a daemon.
"""

from __future__ import annotations

import glob
import json
import os
import resource
import signal
import time
from contextlib import suppress
from typing import Any, NoReturn, Optional, Sequence

from tarmac.node.attempt import protocol, words
from tarmac.node.attempt.document import ContainerLaunch
from tarmac.node.container import drivers, making, root
from tarmac.node.container.failures import ImageProblem
from tarmac.node.container.images import Image, Images
from tarmac.node.container.reference import ALWAYS
from tarmac.node.files import untrusted
from tarmac.node.kernel.handles import closing
from tarmac.node.kernel.mountplan import Bind
from tarmac.node.noderun import Leave, NodeRun

_ANSWER_BYTES = 65536
_MESSAGE_CHARACTERS = 8000
_PULLER_BYTES = 1024**3
"""Memory limit of the process that reads untrusted images."""


def enter_image(run: NodeRun) -> None:
    """Make the container; raises Leave if that fails, or if the attempt is asked to leave."""
    part = run.document.container
    if part is None:
        return
    run.check_leave()
    images = Images(part.images)
    try:
        use: Optional[int] = None
        image, pulled = None if part.pull == ALWAYS and part.digest is None else _here(images, part), {}
        if image is None:
            pulled = _pull(run, part)
            image = _here(images, part)
        if image is not None and image.digest:
            use = images.use(image.digest)
            image = images.by_digest(image.digest)  # the image may have been removed just before
        if image is None:
            raise ImageProblem("removed", f"{part.image} was removed while the run began")
        facts, driver = drivers.survey(), part.driver or drivers.AUTO
        if not image.digest:
            driver = drivers.setting_for(image.layers[0], driver, facts)
    except ImageProblem as problem:
        raise _failed(run, words.IMAGE_PULL, problem.message, problem.hint) from None
    run.events.append("image", name=image.name, digest=image.digest, **pulled)
    try:
        request = _request(run, part, images, image, use)
        run.container = making.make(driver, facts, request, run.events.notice)
    except root.CannotMake as error:
        message = f"a container of {part.image} cannot be made: {error}"
        hint = "`tarmac doctor` says what is missing; `--no-container` runs the command on the node itself"
        raise _failed(run, words.SETUP_FAILED, message, hint) from None


def leave_image(run: NodeRun) -> None:
    """Release the container and its image after the last process in it has ended."""
    if run.container is not None and run.document.container is not None:
        Images(run.document.container.images).note_use(run.container.image.digest)
        run.container.close()


def remove_root(run: NodeRun) -> None:
    """Remove the container's writable layer and the rest of an interrupted pull; this may take a while.

    Directories of the attempt remain.
    """
    place, part = run.attempt.root(run.part.node), run.document.container
    if run.container is None and part is not None:
        with suppress(OSError):
            Images(part.images).clear_halves()
    if run.container is not None:
        run.container.clear(place)
    untrusted.discard_tree(place)


def _here(images: Images, part: ContainerLaunch) -> Optional[Image]:
    """The image, if the node has it: the same image as in an earlier attempt, if there was one."""
    return images.by_digest(part.digest) if part.digest else images.find(part.image)


def _request(
    run: NodeRun, part: ContainerLaunch, images: Images, image: Image, use: Optional[int]
) -> making.Request:
    """The container to make."""
    top, tops = image.layers[0], part.shows
    is_shown = not image.digest and os.path.isdir(top)  # unchanged, with its whole content
    if is_shown and tops is not None and not _is_below(top, [os.path.realpath(each) for each in tops]):
        raise root.CannotMake(f"{top} is a directory of the node that containers may not show here")
    place, binds = run.attempt.root(run.part.node), tuple(_binds(run))
    shown = root.Root(place, binds, shared_memory_bytes=part.shared_memory_bytes)
    slots = sorted({slot for worker in run.part.workers for slot in worker.slots})
    return making.request_for(images, image, use, root=shown, slots=slots, token=protocol.TOKEN_VARIABLE)


def _binds(run: NodeRun) -> list[Bind]:
    """The binds from the node into the container, outer before inner."""
    document = run.document
    own = [run.node.directory, *run.part.artifacts.values()]
    if document.environments is not None:
        os.makedirs(document.environments, mode=0o700, exist_ok=True)
        own.append(document.environments)
    binds = [Bind(path, path) for path in dict.fromkeys(own) if os.path.isdir(path)]
    if document.settings.sdk is not None:
        package = os.path.dirname(document.settings.sdk)  # the SDK's imports are in the same directory
        standins = glob.glob(f"{os.path.dirname(package)}/systems/*/standins")
        binds += [Bind(path, path, read_only=True) for path in (package, *standins)]
    part = document.container
    shown = run.shown if part is None or part.shows is None else _within(run.shown, part.shows)
    return binds + shown


def _within(binds: list[Bind], tops: tuple[str, ...]) -> list[Bind]:
    """The binds, where none below one of these directories leads out of all of them.

    Submission restricts the paths that a run may name; a link on the node could lead elsewhere.
    """
    allowed = [os.path.realpath(top) for top in tops]
    for bind in binds:
        if _is_below(bind.source, tops) and not _is_below(os.path.realpath(bind.source), allowed):
            raise root.CannotMake(f"{bind.source} leads out of what containers may show here")
    return binds


def _is_below(path: str, tops: Sequence[str]) -> bool:
    path = os.path.normpath(path)
    return any(os.path.commonpath((path, os.path.normpath(top))) == os.path.normpath(top) for top in tops)


def _pull(run: NodeRun, part: ContainerLaunch) -> dict[str, Any]:
    """Fetch the image in a separate process and report its progress; returns size, source and duration.

    Raises ImageProblem, or Leave if the attempt is asked to leave.
    """
    hear, say = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
    began, rest = time.monotonic(), b""
    news: dict[str, Any] = {}
    child = run.children.fork(lambda: _be_puller(run, part, say))
    os.close(say)

    def facts() -> dict[str, Any]:
        return {**news.get("fetched", {}), "fetch_s": round(time.monotonic() - began, 3)}

    def read() -> None:
        nonlocal rest
        before = news.get("fetched")
        with suppress(BlockingIOError):
            while piece := os.read(hear, _ANSWER_BYTES):
                *lines, rest = (rest + piece).split(b"\n")
                for line in lines:
                    news.update(untrusted.parse_object(line))
        if news.get("fetched") is not before:
            run.events.append("image_pull", **facts())
            run.events.flush()

    with closing(hear):
        run.attend(child, news=read, also=hear, at_once=True)
    answer = news.get("answer")
    if child.exit_code != 0 or answer is None:
        raise ImageProblem("ended", f"the process that pulls {part.image} {child.how}")
    if answer:
        raise ImageProblem(answer["kind"], answer["message"], answer.get("hint"))
    return facts()


def _be_puller(run: NodeRun, part: ContainerLaunch, say: int) -> NoReturn:
    """In the child process: fetch the image and report progress."""
    from tarmac.node.container.pulling import Puller  # noqa: PLC0415 - and a HTTP client, TLS, tar
    from tarmac.node.container.streams import Fetched  # noqa: PLC0415 - in the child alone, as what follows

    os.setsid()
    signal.pthread_sigmask(signal.SIG_SETMASK, [])
    os.set_blocking(say, True)
    _, most = resource.getrlimit(resource.RLIMIT_DATA)
    least = _PULLER_BYTES if most == resource.RLIM_INFINITY else min(_PULLER_BYTES, most)
    resource.setrlimit(resource.RLIMIT_DATA, (least, most))

    def tell(fetched: Fetched) -> None:
        numbers = {"fetched_bytes": fetched.come_bytes, "total_bytes": fetched.total_bytes}
        os.write(say, json.dumps({"fetched": {**numbers, "source": fetched.source}}).encode() + b"\n")

    def note(line: str) -> None:
        untrusted.append_text(run.setup_log, f"{line}\n")

    credentials = [run.secret_values[name] for name in part.credentials if name in run.secret_values]
    answer: dict[str, Any] = {}
    try:
        puller = Puller(Images(part.images), note, tell=tell, mirrors=part.mirrors)
        puller.ensure(part.image, credentials=credentials, pull=part.pull, digest=part.digest)
    except ImageProblem as problem:
        message = problem.message[:_MESSAGE_CHARACTERS]
        answer = {"kind": problem.kind, "message": message, "hint": problem.hint}
    except Exception as error:  # noqa: BLE001 - whatever it is, the run's end has to say it
        reason = "" if credentials else f": {error}"  # a library may quote its credentials
        message = f"pulling {part.image}: {type(error).__name__}{reason}"
        answer = {"kind": "fault", "message": message[:_MESSAGE_CHARACTERS]}
    os.write(say, json.dumps({"answer": answer}).encode() + b"\n")
    os._exit(0)


def _failed(run: NodeRun, code: str, message: str, hint: Optional[str]) -> Leave:
    """The failure of an attempt without a container."""
    whole = f"{message} ({hint})" if hint else message
    return run.fail(run.cause(code, f"{run.node_name}: {whole}"))
