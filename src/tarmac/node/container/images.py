"""The images of a node: fetched once for each digest, kept as unpacked layers that images share.

    IMAGES/layers/KEY             a layer in the form of an overlay (KEY: the start of its digest)
    IMAGES/layers/KEY.part        an unfinished layer, under the lock KEY.lock
    IMAGES/known/DIGEST.json      an image with all of its layers: see `Image`
    IMAGES/names/SUMMARY.json     the digest of a name when it was fetched
    IMAGES/flat/DIGEST            all files of an image in one directory, for drivers that need that
    IMAGES/uses/DIGEST            locked (shared) by every attempt that runs in the image
    IMAGES/changes                locked: shared while an image is fetched, exclusively while one is removed

Called by the hook `image`, by `pulling`, and, to list and remove images, through `host/operations`.
"""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import stat
import time
from contextlib import suppress
from typing import Any, Callable, ContextManager, Mapping, NamedTuple, Optional

from tarmac.node.container import reference
from tarmac.node.files import untrusted
from tarmac.node.files.codestore import digest as summary_of
from tarmac.node.kernel.handles import locked

HALF = ".part"

OPAQUE_MARK = "user.overlay.opaque"
"""An attribute of a layer's directory that hides the content of lower layers."""

_LAYER_S = 86_400.0
"""The time for which the layers of an interrupted pull are kept, so that the next one can continue."""

_PLACES = ("layers", "known", "names", "uses")


class Image(NamedTuple):
    """A complete image on the node: its layers from the lowest, as names below `layers` or as paths.

    `digest` is "" for a directory that is used unchanged; `size_bytes` is the compressed size of its layers,
    `layer_bytes` the size of each on this disk.
    """

    name: str
    digest: str
    layers: tuple[str, ...]
    env: Mapping[str, str]
    size_bytes: int = 0
    fetched_at: float = 0.0
    layer_bytes: tuple[int, ...] = ()


class Images:
    """The images below a directory of the node."""

    def __init__(self, directory: str) -> None:
        self.directory = directory

    @property
    def layers(self) -> str:
        """The directory of the layers."""
        return os.path.join(self.directory, "layers")

    def _flat(self, digest: str) -> str:
        return os.path.join(self.directory, "flat", _file_name(digest))

    def flat_root(self, image: Image) -> str:
        """The directory with all files of an image, as Apptainer needs it; made once. Raises OSError.

        It has hard links to the files of the image's layers, so it takes no space.
        """
        if not image.digest:
            return image.layers[0]
        layers = [os.path.join(self.layers, layer) for layer in image.layers]
        if len(layers) == 1:
            return layers[0]
        place = self._flat(image.digest)
        if not os.path.isdir(place):
            os.makedirs(os.path.dirname(place), mode=0o700, exist_ok=True)

            def fill(draft: str) -> None:
                for layer in layers:
                    _lay(layer, draft)

            make_once(place, fill)
        return place

    def prepare(self) -> None:
        """Make the directories, for their owner alone. Raises OSError."""
        for place in _PLACES:
            os.makedirs(os.path.join(self.directory, place), mode=0o700, exist_ok=True)
        os.chmod(self.directory, 0o700)

    def find(self, name: str) -> Optional[Image]:
        """The image of this name, if it is complete here. Raises ImageProblem for an invalid name."""
        path = reference.local_path(name)
        if path is None:
            known = reference.parse(name)
            return self.by_key(str(known)) or (self.by_digest(known.digest) if known.digest else None)
        path = os.path.abspath(path)
        if reference.is_used_unchanged(path):
            return Image(name, "", (os.path.realpath(path),), {})
        return self.by_key(reference.known_as(path)) if os.path.exists(path) else None

    def all(self) -> list[Image]:
        """The complete images, by name."""
        directory = os.path.join(self.directory, "known")
        names = os.listdir(directory) if os.path.isdir(directory) else ()
        found = [self._read(os.path.join(directory, name)) for name in names if name.endswith(".json")]
        return sorted((image for image in found if image is not None), key=lambda image: image.name)

    def by_digest(self, digest: str) -> Optional[Image]:
        """The image of a digest, if it is complete here."""
        return self._read(self._record(digest))

    def by_key(self, key: str) -> Optional[Image]:
        """The image that a full name had when it was fetched, if it is still complete."""
        record = untrusted.object_at(self._name(key))
        return self.by_digest(str(record.get("digest"))) if record else None

    def add(self, key: str, image: Image) -> None:
        """Record a complete image under a full name. Raises OSError."""
        untrusted.replace(self._record(image.digest), json.dumps(image._asdict()).encode())
        name = {"name": image.name, "digest": image.digest}
        untrusted.replace(self._name(key), json.dumps(name).encode())

    def use(self, digest: str) -> int:
        """A lock, as a descriptor: the image stays while it is open. Raises OSError."""
        handle = os.open(self._use(digest), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        fcntl.flock(handle, fcntl.LOCK_SH)
        os.utime(handle)
        return handle

    def note_use(self, digest: str) -> None:
        """Record the current time as the image's last use, at the end of a run."""
        with suppress(OSError):
            os.utime(self._use(digest))

    def layer_sizes(self) -> dict[str, int]:
        """The size of each measured layer."""
        pairs = (pair for image in self.all() for pair in zip(image.layers, image.layer_bytes))  # noqa: B905
        return dict(pairs)

    def fetching(self) -> ContextManager[bool]:
        """Prevent removals inside the context. Raises OSError."""
        return locked(self._changes, shared=True)

    def remove(self, digest: str) -> bool:
        """Remove an image, if it is here, and the layers that no other has; False if it is in use."""
        if self.by_digest(digest) is None:
            return True
        with locked(self._changes, wait=False) as alone:
            if not alone:
                return False
            with locked(self._use(digest), wait=False) as unused:
                if not unused:
                    return False
                os.unlink(self._record(digest))
            untrusted.discard_tree(self._flat(digest))
            self._remove_unused_layers()
        return True

    def listing(self) -> list[dict[str, Any]]:
        """The complete images by name, as another machine can receive them: see `model.abilities.KeptImage`.

        `used_at` is the time at which a run last began or ended in it.
        """
        found = []
        for image in self.all():
            with locked(self._use(image.digest), wait=False) as unused:
                used_at = os.stat(self._use(image.digest)).st_mtime
            facts = {
                "name": image.name,
                "digest": image.digest,
                "size_bytes": image.size_bytes,
                "disk_bytes": sum(image.layer_bytes),
                "fetched_at": image.fetched_at,
                "used_at": used_at,
                "in_use": not unused,
            }
            found.append(facts)
        return found

    def clear(self, *, limit_bytes: Optional[int], unused_days: Optional[float]) -> list[str]:
        """Remove images unused for `unused_days`, and, over the limit, the least recently used ones.

        Also removes the layers of interrupted pulls. Returns the names of the removed images; those in use by
        a run stay. Raises OSError.
        """
        gone = []
        for image in sorted(self.listing(), key=lambda each: each["used_at"]):
            over = limit_bytes is not None and sum(self.layer_sizes().values()) > limit_bytes
            old = unused_days is not None and time.time() - image["used_at"] > unused_days * 86_400.0
            if (over or old) and self.remove(image["digest"]):
                gone.append(image["name"])
        self.clear_halves()
        self.clear_layers(before=time.time() - _LAYER_S)
        return gone

    def clear_halves(self) -> None:
        """Remove incomplete entries of ended pulls, but not those of running ones."""
        with suppress(FileNotFoundError), self.fetching():
            for directory in (self.layers, os.path.join(self.directory, "flat")):
                for name in os.listdir(directory) if os.path.isdir(directory) else ():
                    if name.endswith(HALF):
                        _remove_half(os.path.join(directory, name))

    def clear_layers(self, *, before: float) -> None:
        """Remove layers of no image that are older than `before`: no later pull has completed an image."""
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
        record = untrusted.object_at(path, untrusted.DOCUMENT_BYTES)
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


def make_once(place: str, fill: Callable[[str], None], *, rest: Optional[Callable[[], None]] = None) -> bool:
    """Make a directory that `fill` completes; False if it exists, or another process has made it meanwhile.

    `rest` is called while another process makes it. Raises OSError, and the errors of `fill`.
    """
    with locked(f"{place}.lock", rest=rest):
        if os.path.isdir(place):
            return False
        draft = f"{place}{HALF}"
        with suppress(FileNotFoundError):  # an incomplete one of a process that ended
            untrusted.remove_tree(draft)
        os.mkdir(draft, 0o755)
        try:
            fill(draft)
        except BaseException:
            untrusted.discard_tree(draft)
            raise
        os.replace(draft, place)
    return True


def is_directory(place: str) -> bool:
    """Whether a path is a directory itself, not a link to one."""
    return os.path.isdir(place) and not os.path.islink(place)


def _lay(layer: str, target: str) -> None:
    """Copy a directory of a layer over the existing entries; links are copied, never followed."""
    with os.scandir(layer) as found:
        entries = sorted(found, key=lambda entry: entry.name)
    for entry in entries:
        place = os.path.join(target, entry.name)
        kind = entry.stat(follow_symlinks=False)
        if not stat.S_ISDIR(kind.st_mode):
            clear(place)
            if stat.S_ISLNK(kind.st_mode):
                os.symlink(os.readlink(entry.path), place)
            elif stat.S_ISREG(kind.st_mode):
                os.link(entry.path, place, follow_symlinks=False)
            continue  # an entry that is neither removes the one below
        if _is_opaque(entry.path) or not is_directory(place):
            clear(place)
        with suppress(FileExistsError):
            os.mkdir(place)
        _lay(entry.path, place)
        shutil.copystat(entry.path, place, follow_symlinks=False)
        if os.geteuid() == 0:
            os.chown(place, kind.st_uid, kind.st_gid)


def clear(place: str) -> None:
    """Remove a file, a link or a directory, if there is one."""
    if is_directory(place):
        untrusted.remove_tree(place)
    else:
        with suppress(FileNotFoundError):
            os.unlink(place)


def _is_opaque(path: str) -> bool:
    with suppress(OSError):
        return os.getxattr(path, OPAQUE_MARK) == b"y"
    return False


def _remove_half(place: str) -> None:
    """Remove an incomplete entry unless a process holds its lock."""
    with suppress(OSError), locked(f"{place[: -len(HALF)]}.lock", wait=False) as mine:
        if mine:
            untrusted.remove_tree(place)


def _file_name(digest: str) -> str:
    return digest.replace(":", "-").replace("/", "-")
