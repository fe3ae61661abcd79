"""The images of a node: fetched once for each digest, kept as unpacked layers that images share.

    IMAGES/layers/KEY             a layer, as an overlay shows it (KEY: the start of its digest)
    IMAGES/layers/KEY.part        one in the making, under the lock KEY.lock
    IMAGES/known/DIGEST.json      an image whose layers are all there: see `Image`
    IMAGES/names/SUMMARY.json     which digest a name had when it was fetched
    IMAGES/flat/DIGEST            all files of an image in one directory, for drivers that need that
    IMAGES/uses/DIGEST            locked (shared) by every attempt that runs in the image
    IMAGES/changes                locked: shared while an image is fetched, alone while one is removed

Called by the hook `image`, by `pulling`, and by those who list and remove images.
"""

from __future__ import annotations

import fcntl
import json
import os
from contextlib import contextmanager, suppress
from typing import Any, Callable, Iterator, Mapping, NamedTuple, Optional

from tarmac.node.container import reference
from tarmac.node.files import untrusted
from tarmac.node.files.digests import digest as summary_of

HALF = ".part"
"""The end of the name of what is not whole yet."""

_PLACES = ("layers", "known", "names", "uses")


class Image(NamedTuple):
    """An image that is whole on the node: its layers from the lowest, as names below `layers` or as paths.

    `digest` is "" for a directory that is used as it is; `size_bytes` is what its layers are on their way,
    `layer_bytes` what each of them takes here.
    """

    name: str
    digest: str
    layers: tuple[str, ...]
    env: Mapping[str, str]
    size_bytes: int = 0
    fetched_at: float = 0.0
    layer_bytes: tuple[int, ...] = ()


class Kept(NamedTuple):
    """An image that is kept, and who has use of it: `used_at` is when a run last began or ended in it."""

    image: Image
    used_at: float
    in_use: bool


class Images:
    """The images below a directory."""

    def __init__(self, directory: str) -> None:
        self.directory = directory

    @property
    def layers(self) -> str:
        """Where the layers lie."""
        return os.path.join(self.directory, "layers")

    def flat(self, digest: str) -> str:
        """Where all files of an image lie in one directory, if a driver needs that."""
        return os.path.join(self.directory, "flat", _file_name(digest))

    def prepare(self) -> None:
        """Make the directories, for their owner alone. Raises OSError."""
        for place in _PLACES:
            os.makedirs(os.path.join(self.directory, place), mode=0o700, exist_ok=True)
        os.chmod(self.directory, 0o700)

    def find(self, name: str) -> Optional[Image]:
        """The image of this name, if it is whole here. Raises ImageProblem for what is no name of one."""
        path = reference.local_path(name)
        if path is None:
            known = reference.parse(name)
            return self.by_key(str(known)) or (self.by_digest(known.digest) if known.digest else None)
        path = os.path.abspath(path)
        if reference.is_root(path):
            return Image(name, "", (os.path.realpath(path),), {})
        return self.by_key(reference.known_as(path)) if os.path.exists(path) else None

    def all(self) -> list[Image]:
        """The images that are whole here, by name."""
        directory = os.path.join(self.directory, "known")
        names = os.listdir(directory) if os.path.isdir(directory) else ()
        found = [self._read(os.path.join(directory, name)) for name in names if name.endswith(".json")]
        return sorted((image for image in found if image is not None), key=lambda image: image.name)

    def by_digest(self, digest: str) -> Optional[Image]:
        """The image of a digest, if it is whole here."""
        return self._read(self._record(digest))

    def by_key(self, key: str) -> Optional[Image]:
        """The image that a name in full had when it was fetched, if it is still whole."""
        record = _object_in(self._name(key))
        return self.by_digest(str(record.get("digest"))) if record else None

    def add(self, key: str, image: Image) -> None:
        """Note that an image is whole, under a name in full. Raises OSError."""
        _write(self._record(image.digest), image._asdict())
        _write(self._name(key), {"name": image.name, "digest": image.digest})

    def use(self, digest: str) -> int:
        """A lock, as a descriptor: as long as it is open the image stays. Raises OSError."""
        handle = os.open(self._use(digest), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        fcntl.flock(handle, fcntl.LOCK_SH)
        os.utime(handle)
        return handle

    def note_use(self, digest: str) -> None:
        """A run in the image ends: it was used until now."""
        with suppress(OSError):
            os.utime(self._use(digest))

    def kept(self) -> list[Kept]:
        """The images that are whole here, by name, with their use."""
        found = []
        for image in self.all():
            with locked(self._use(image.digest), wait=False) as unused:
                used_at = os.stat(self._use(image.digest)).st_mtime
            found.append(Kept(image, used_at, not unused))
        return found

    def layer_sizes(self) -> dict[str, int]:
        """What each layer takes, as far as that was measured."""
        pairs = (pair for image in self.all() for pair in zip(image.layers, image.layer_bytes))  # noqa: B905
        return dict(pairs)

    @contextmanager
    def fetching(self) -> Iterator[None]:
        """Nothing is removed meanwhile. Raises OSError."""
        handle = os.open(self._changes, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(handle, fcntl.LOCK_SH)
            yield
        finally:
            os.close(handle)

    def remove(self, digest: str) -> bool:
        """Remove an image and the layers that no other has; False where it is in use or not here."""
        if self.by_digest(digest) is None:
            return False
        with locked(self._changes, wait=False) as alone:
            if not alone:
                return False
            with locked(self._use(digest), wait=False) as unused:
                if not unused:
                    return False
                os.unlink(self._record(digest))
            with suppress(OSError):
                untrusted.remove_tree(self.flat(digest))
            self._remove_unused_layers()
        return True

    def clear_halves(self) -> None:
        """Remove what somebody who was ended has half made. Nobody else's work is touched."""
        with suppress(FileNotFoundError), self.fetching():
            for directory in (self.layers, os.path.join(self.directory, "flat")):
                for name in os.listdir(directory) if os.path.isdir(directory) else ():
                    if name.endswith(HALF):
                        _remove_half(os.path.join(directory, name))

    def clear_layers(self, *, before: float) -> None:
        """Remove layers of no image that are older: their pulls ended early, and nobody has gone on since."""
        with suppress(FileNotFoundError), locked(self._changes, wait=False) as alone:
            if alone:
                self._remove_unused_layers(before)

    def _remove_unused_layers(self, before: Optional[float] = None) -> None:
        used = {key for image in self.all() for key in image.layers}
        for key in os.listdir(self.layers):
            place = os.path.join(self.layers, key)
            if key.endswith(".lock") or key in used:
                continue
            with suppress(OSError):
                if before is None or os.lstat(place).st_ctime < before:
                    untrusted.remove_tree(place)
                    os.unlink(f"{place}.lock")

    @property
    def _changes(self) -> str:
        return os.path.join(self.directory, "changes")

    def _read(self, path: str) -> Optional[Image]:
        record = _object_in(path)
        try:
            sizes = tuple(map(int, record.get("layer_bytes", ())))
            image = Image(**{**record, "layers": tuple(record["layers"]), "layer_bytes": sizes})
        except (TypeError, KeyError, ValueError):
            return None
        whole = all(os.path.isdir(os.path.join(self.layers, key)) for key in image.layers)
        return image if whole else None

    def _record(self, digest: str) -> str:
        return os.path.join(self.directory, "known", f"{_file_name(digest)}.json")

    def _name(self, key: str) -> str:
        return os.path.join(self.directory, "names", f"{summary_of(key)}.json")

    def _use(self, digest: str) -> str:
        return os.path.join(self.directory, "uses", _file_name(digest))


@contextmanager
def locked(path: str, *, wait: bool = True, rest: Optional[Callable[[], None]] = None) -> Iterator[bool]:
    """Hold a lock alone. Without `wait`: whether it could be had; else `rest` is called between tries."""
    handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        mine = _try_lock(handle)
        while wait and not mine:
            if rest is not None:
                rest()
            mine = _try_lock(handle)
        yield mine
    finally:
        os.close(handle)


def _remove_half(place: str) -> None:
    """Unless somebody is at it."""
    with suppress(OSError), locked(f"{place[: -len(HALF)]}.lock", wait=False) as mine:
        if mine:
            untrusted.remove_tree(place)


def _try_lock(handle: int) -> bool:
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _file_name(digest: str) -> str:
    return digest.replace(":", "-").replace("/", "-")


def _write(path: str, record: Mapping[str, Any]) -> None:
    draft = f"{path}.{os.urandom(6).hex()}"
    with open(draft, "w", encoding="utf-8") as file:
        json.dump(record, file)
    os.replace(draft, path)


def _object_in(path: str) -> dict[str, Any]:
    """The record in a file of our own; empty where there is none that can be read."""
    try:
        with open(path, encoding="utf-8") as file:
            found = json.load(file)
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}
