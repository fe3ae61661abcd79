"""The files of an image in one directory, for programs without support for layers. Called by `making`.

Made once per image from hard links to its layers' files, so it takes no space; it is never written to.
"""

from __future__ import annotations

import os
import shutil
import stat
from contextlib import suppress

from tarmac.node.container.images import HALF, Image, Images, locked
from tarmac.node.files import untrusted

_OPAQUE_MARK = "user.overlay.opaque"


def flat_root(images: Images, image: Image) -> str:
    """The directory with all files of the image. Raises OSError."""
    if not image.digest:
        return image.layers[0]
    if len(image.layers) == 1:
        return os.path.join(images.layers, image.layers[0])
    place = images.flat(image.digest)
    if os.path.isdir(place):
        return place
    os.makedirs(os.path.dirname(place), mode=0o700, exist_ok=True)
    with locked(f"{place}.lock"):
        if not os.path.isdir(place):
            draft = f"{place}{HALF}"
            with suppress(FileNotFoundError):
                untrusted.remove_tree(draft)
            os.mkdir(draft, 0o755)
            for layer in image.layers:
                _lay(os.path.join(images.layers, layer), draft)
            os.rename(draft, place)
    return place


def _lay(layer: str, target: str) -> None:
    """Copy a directory of a layer over the existing entries; links are copied, never followed."""
    with os.scandir(layer) as found:
        entries = sorted(found, key=lambda entry: entry.name)
    for entry in entries:
        place = os.path.join(target, entry.name)
        kind = entry.stat(follow_symlinks=False)
        if not stat.S_ISDIR(kind.st_mode):
            _clear(place)
            if stat.S_ISLNK(kind.st_mode):
                os.symlink(os.readlink(entry.path), place)
            elif stat.S_ISREG(kind.st_mode):
                os.link(entry.path, place, follow_symlinks=False)
            continue  # an entry that is neither removes the one below
        if _is_opaque(entry.path) or not _is_directory(place):
            _clear(place)
        with suppress(FileExistsError):
            os.mkdir(place)
        _lay(entry.path, place)
        shutil.copystat(entry.path, place, follow_symlinks=False)
        if os.geteuid() == 0:
            os.chown(place, kind.st_uid, kind.st_gid)


def _clear(place: str) -> None:
    if _is_directory(place):
        untrusted.remove_tree(place)
    else:
        with suppress(FileNotFoundError):
            os.unlink(place)


def _is_directory(place: str) -> bool:
    return os.path.isdir(place) and not os.path.islink(place)


def _is_opaque(path: str) -> bool:
    with suppress(OSError):
        return os.getxattr(path, _OPAQUE_MARK) == b"y"
    return False
