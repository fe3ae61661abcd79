"""The program `apptainer`, for rehearsals on a machine without it: by path, `run OPTIONS IMAGE COMMAND...`.

It becomes the command in the image, like Apptainer: the home, the working directory, /tmp and the variables
are those of the machine. If that is impossible, it prints the reason and becomes the command without the
image.
"""

from __future__ import annotations

import os
import sys
import tempfile
from typing import NoReturn, Sequence

if not __package__:
    # Run by path, so no module of the run takes precedence.
    sys.path[0] = os.path.abspath(os.path.join(os.path.dirname(os.path.abspath(__file__)), *[".."] * 3))

from tarmac.node.apptainer.options import RunRequest, parse
from tarmac.node.attempt import protocol, words
from tarmac.node.container import drivers, making
from tarmac.node.container.entry import AnyContainer
from tarmac.node.container.failures import UNKNOWN_IMAGE, ImageProblem
from tarmac.node.container.images import Images
from tarmac.node.container.pulling import Puller
from tarmac.node.container.root import CannotMake, Root
from tarmac.node.kernel.mountplan import Bind

_RUNSCRIPT = "/.singularity.d/runscript"
_ABOVE_NODE = 6
"""The number of directories between a node of an attempt and the home of its cluster."""


def main() -> NoReturn:
    """Become the command."""
    try:
        request = parse(sys.argv[2:])
    except ValueError as problem:
        _say(f"apptainer run: {problem}")
        sys.exit(words.NOT_EXECUTABLE_EXIT)
    for option in request.ignored:
        _say(f"without Apptainer, its option {option} has no effect")
    try:
        node = os.path.dirname(os.environ.get(protocol.PAUSE_VARIABLE, ""))
        container = _container(request, node)
        container.enter()
    except (ImageProblem, CannotMake, OSError) as problem:
        _say(f"there is no 'apptainer' here; without the image {request.image}: {problem}")
        _become(request.command, dict(os.environ), os.getcwd())
    command, env = request.command, _environment(request, container)
    if os.path.exists(_RUNSCRIPT):
        command = (_RUNSCRIPT, *command)
    argv, env_there, directory = container.start(command, env, request.directory or os.getcwd())
    _become(argv, dict(env_there), directory)


def _container(request: RunRequest, node: str) -> AnyContainer:
    """The container of the image, fetched if it is missing. Raises ImageProblem, CannotMake, OSError."""
    home = os.path.abspath(os.path.join(node, *[".."] * _ABOVE_NODE))
    images = Images(os.path.join(home, "images"))
    name = request.image if "://" in request.image else os.path.join(os.getcwd(), request.image)
    if "://" not in name and not os.path.exists(name):
        raise ImageProblem(UNKNOWN_IMAGE, "there is no such file")
    image = Puller(images, _say).ensure(name)
    if not image.digest:
        drivers.setting_for(image.layers[0], drivers.AUTO, drivers.survey())
    use = images.use(image.digest) if image.digest else None
    if use is not None:
        os.set_inheritable(use, True)
    slots = [int(slot) for slot in os.environ.get("CUDA_VISIBLE_DEVICES", "").split(",") if slot.isdigit()]
    place = tempfile.mkdtemp(prefix="image-", dir=node)
    root = Root(place, (*_shown(node), *_there(request)), in_memory=True)
    shown_slots, token = slots if request.devices else (), protocol.TOKEN_VARIABLE
    made_of = making.request_for(images, image, use, root=root, slots=shown_slots, token=token)
    return making.make(drivers.OWN, drivers.survey(), made_of, _say)


def _shown(node: str) -> list[Bind]:
    """Apptainer's default binds and the run's directories, outer before inner."""
    artifacts = [os.environ.get(f"{kind.upper()}_ARTIFACT_PATH", "") for kind in protocol.ARTIFACT_KINDS]
    paths = {os.environ.get("HOME", ""), os.getcwd(), "/tmp", node, *artifacts}
    return [Bind(path, path) for path in sorted(paths) if path != "/" and os.path.isdir(path)]


def _there(request: RunRequest) -> list[Bind]:
    """The binds with existing sources on this machine."""
    for bind in request.binds:
        if not os.path.exists(bind.source):
            _say(f"{bind.source} is not on this machine, and not shown in the image")
    return [bind for bind in request.binds if os.path.exists(bind.source)]


def _environment(request: RunRequest, container: AnyContainer) -> dict[str, str]:
    """The machine's variables over those of the image, except PATH."""
    given = {} if request.clean else dict(os.environ)
    path = {"PATH": container.image.env.get("PATH", drivers.USUAL_PATH)}
    return {**container.image.env, **given, **path, **container.image.visible(given), **request.env}


def _become(argv: Sequence[str], env: dict[str, str], directory: str) -> NoReturn:
    try:
        os.chdir(directory)
        os.execvpe(argv[0], list(argv), env)
    except (OSError, IndexError) as problem:
        _say(f"{argv[0] if argv else 'no command'}: {problem}")
        sys.exit(words.NOT_FOUND_EXIT)


def _say(line: str) -> None:
    sys.stderr.write(f"tarmac: {line}\n")
    sys.stderr.flush()


if __name__ == "__main__":
    main()
