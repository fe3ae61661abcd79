"""Fetches an image from its registry or an archive, layer by layer, each once per node.

Called by the hook `image` in a separate process, which ends to cancel the pull, and by `tarmac images`.
"""

from __future__ import annotations

import base64
import errno
import hashlib
import os
import shutil
import time
from contextlib import closing, suppress
from functools import partial
from typing import Any, Callable, Mapping, NamedTuple, Optional, Sequence, Union

from tarmac.node.container import archives, failures, manifests
from tarmac.node.container.failures import ImageProblem
from tarmac.node.container.images import Image, Images, make_once
from tarmac.node.container.manifests import Manifest, Piece
from tarmac.node.container.reference import ALWAYS, Reference, known_as, local_path, parse
from tarmac.node.container.registry import Login, Registry, names_registries, read_login
from tarmac.node.container.streams import Fetched, LayerStream, Progress, Say, archive_in, mebibytes
from tarmac.node.container.unpacking import unpack
from tarmac.node.files import untrusted

_KEY_BYTES = 18
"""Bytes of a digest in a key, as 24 characters: all layers must fit into a mount's one page of options."""

_SPACE = (errno.ENOSPC, errno.EDQUOT)

_ELSEWHERE = (failures.UNKNOWN_IMAGE, failures.UNKNOWN_TAG, failures.UNREACHABLE, failures.CREDENTIALS)
"""Problems with a mirror that the registry may not have."""

Source = Union[archives.Archive, Registry]


class Puller(NamedTuple):
    """Fetches into the images of a node. `machine`: the value of `uname -m`, if not this machine's.

    `say` gets the progress in words, `tell` in numbers, also at the end. A registry's mirror in `mirrors` is
    asked before the registry.
    """

    images: Images
    say: Say
    machine: str = os.uname().machine
    tell: Callable[[Fetched], None] = lambda _: None
    mirrors: Mapping[str, str] = {}

    def ensure(
        self, name: str, *, credentials: Sequence[str] = (), pull: str = "", digest: Optional[str] = None
    ) -> Image:
        """The image, fetched if it is missing; with `pull` ALWAYS its registry is asked in any case.

        `credentials` may include those for its registry, each in a form of `registry.read_login`. With a
        `digest` only that image is valid, even if the name now means another. Raises ImageProblem.
        """
        try:
            self.images.prepare()
            with self.images.fetching():
                path = local_path(name)
                if path is not None:
                    return _checked(self._local(name, os.path.abspath(path)), digest)
                reference = parse(name)
                if digest is not None:
                    reference = reference._replace(digest=digest)
                return self._remote(name, reference, credentials=credentials, pull=pull)
        except OSError as error:
            place = self.images.directory
            if error.errno in _SPACE:
                message = f"the disk of {place} is full: the image does not fit"
                raise ImageProblem(failures.DISK_FULL, message, failures.MAKE_ROOM) from None
            raise ImageProblem(failures.REFUSED, f"{place} cannot keep the image: {error}") from None

    def _local(self, name: str, path: str) -> Image:
        if not os.path.exists(path):
            raise ImageProblem(failures.UNKNOWN_IMAGE, f"there is no image at {path} on this node")
        if (found := self.images.find(name)) is not None:
            return found
        with closing(archives.Archive(path)) as archive:
            return self._fetch(archive, known_as(path), name, "")

    def _remote(self, name: str, reference: Reference, *, credentials: Sequence[str], pull: str) -> Image:
        found = self.images.find(str(reference))
        if found is not None and (pull != ALWAYS or reference.digest is not None):
            return found

        def fetch(place: Reference, credentials: Sequence[str]) -> Image:
            return self._fetch(_registry(place, credentials), str(reference), name, reference.version)

        mirror = self.mirrors.get(reference.registry)
        if mirror is None:
            return fetch(reference, credentials)
        of_mirror = [text for text in credentials if names_registries(text)]  # others are for the registry
        try:
            return fetch(reference.at(mirror), of_mirror)
        except ImageProblem as problem:
            if problem.kind not in _ELSEWHERE:
                raise
            missing = problem
        self.say(f"(its mirror {mirror} does not have it: {missing.message})")
        try:
            return fetch(reference, credentials)
        except ImageProblem as problem:
            message = f"{problem.message}; and of its mirror: {missing.message}"
            raise ImageProblem(problem.kind, message, problem.hint) from None

    def _fetch(self, source: Source, key: str, name: str, version: str) -> Image:
        """Fetch the missing parts of an image, and record that it is complete."""
        content = source.manifest(version)
        if version.startswith("sha256:"):
            _check(content, version)
        digest, found = _digest_of(content), _object_in(content, name)
        chosen = manifests.choose(found, self.machine, name)
        if chosen is not None:
            content = source.manifest(chosen)
            _check(content, chosen)
            found = _object_in(content, name)
        image = self.images.by_digest(digest)
        if image is None:
            image = self._pull(source, manifests.read_manifest(found), name, digest)
        else:
            self.say(f"{name} is {digest}, which is here already")
        self.images.add(key, image)
        return image

    def _pull(self, source: Source, manifest: Manifest, name: str, digest: str) -> Image:
        with source.open(manifest.config.digest) as stream:
            content = stream.read(manifests.MOST_CONFIG_BYTES)
        _check(content, manifest.config.digest)
        env = manifests.read_config(_object_in(content, name), self.machine, name)
        missing = [piece for piece in manifest.layers if not os.path.isdir(self._place(piece))]
        needed_bytes = sum(piece.size_bytes for piece in missing)
        layers = len(missing), len(manifest.layers)
        progress = Progress(name, source.address, needed_bytes, layers=layers, say=self.say, tell=self.tell)
        self._check_space(needed_bytes)
        for piece in missing:
            fill = partial(_fill, source=source, piece=piece, progress=progress)
            ours = make_once(self._place(piece), fill, rest=progress.rest)
            progress.note_layer(0 if ours else piece.size_bytes)
        progress.end(digest)
        known, places = self.images.layer_sizes(), list(map(self._place, manifest.layers))
        return Image(
            name,
            digest,
            tuple(map(os.path.basename, places)),
            env,
            sum(piece.size_bytes for piece in manifest.layers),
            time.time(),
            tuple(known.get(os.path.basename(place)) or disk_bytes(place) for place in places),
        )

    def _place(self, piece: Piece) -> str:
        start = bytes.fromhex(piece.digest.partition(":")[2])[:_KEY_BYTES]
        return os.path.join(self.images.layers, base64.urlsafe_b64encode(start).decode())

    def _check_space(self, needed: int) -> None:
        """Refuse a pull whose compressed layers already exceed the free space, as unpacked they need more."""
        free = shutil.disk_usage(self.images.directory).free
        if needed > free:
            place = self.images.directory
            message = f"the image needs more than {mebibytes(needed)}, {place} has {mebibytes(free)} left"
            raise ImageProblem(failures.DISK_FULL, message, failures.MAKE_ROOM)


def _fill(directory: str, *, source: Source, piece: Piece, progress: Progress) -> None:
    with LayerStream(piece, source.open, progress.count) as stream:
        with archive_in(stream) as archive:
            unpack(archive, directory)
        stream.check()


def disk_bytes(directory: str) -> int:
    """The size of a directory with all of its content; a file with several names counts once."""
    seen: set[int] = set()
    total = 0
    for parent, directories, files in os.walk(directory):
        for name in (*directories, *files):
            with suppress(OSError):
                found = os.lstat(os.path.join(parent, name))
                if found.st_nlink == 1 or found.st_ino not in seen:
                    seen.add(found.st_ino)
                    total += found.st_blocks * 512
    return total


def _checked(image: Image, digest: Optional[str]) -> Image:
    """The image, checked: a file of the node may have changed since an earlier attempt."""
    if digest is not None and image.digest != digest:
        message = f"{image.name} is another image by now than the run began in, {digest}"
        raise ImageProblem(failures.DAMAGED, message, "put that one back, or submit the run again")
    return image


def _registry(reference: Reference, credentials: Sequence[str]) -> Registry:
    try:
        return Registry(reference, _login_among(credentials, reference.registry))
    except ValueError:  # the error may quote credentials
        message = f"the credentials for {reference.registry} are not user:password, nor of docker login"
        raise ImageProblem(failures.CREDENTIALS, message) from None


def _login_among(credentials: Sequence[str], registry: str) -> Optional[Login]:
    """The run's login for this registry by name, else for any; else that of the node's user."""
    for text in sorted(credentials, key=names_registries, reverse=True):
        if (login := read_login(text, registry)) is not None:
            return login
    return _login_of_the_user(registry)


def _login_of_the_user(registry: str) -> Optional[Login]:
    """The login that the node's user has stored with `docker login` or `podman login`."""
    runtime = os.environ.get("XDG_RUNTIME_DIR")
    home = os.environ.get("DOCKER_CONFIG") or os.path.expanduser("~/.docker")
    places = [os.environ.get("REGISTRY_AUTH_FILE"), f"{runtime}/containers/auth.json", f"{home}/config.json"]
    for path in filter(None, places):
        with suppress(OSError, ValueError), open(path, encoding="utf-8") as file:
            if (login := read_login(file.read(), registry)) is not None:
                return login
    return None


def _digest_of(content: bytes) -> str:
    return f"sha256:{hashlib.sha256(content).hexdigest()}"


def _check(content: bytes, digest: str) -> None:
    if _digest_of(content) != digest:
        raise ImageProblem(failures.DAMAGED, f"what came as {digest} is something else")


def _object_in(content: bytes, name: str) -> dict[str, Any]:
    try:
        return untrusted.parse_object(content)
    except ValueError:
        raise ImageProblem(failures.DAMAGED, f"the manifest of {name} cannot be read") from None
