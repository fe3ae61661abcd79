"""All files of an image in one directory, as Apptainer needs them. Called by `making` and the hook `image`.

The directory is made once per image from hard links to its layers' files, so it takes no space.
"""

from __future__ import annotations

import os
import shutil
import stat
from contextlib import suppress

from tarmac.node.container.images import OPAQUE_MARK, Image, Images, is_directory, make_once
from tarmac.node.files import untrusted


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

    def fill(draft: str) -> None:
        for layer in image.layers:
            _lay(os.path.join(images.layers, layer), draft)

    make_once(place, fill)
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
        if _is_opaque(entry.path) or not is_directory(place):
            _clear(place)
        with suppress(FileExistsError):
            os.mkdir(place)
        _lay(entry.path, place)
        shutil.copystat(entry.path, place, follow_symlinks=False)
        if os.geteuid() == 0:
            os.chown(place, kind.st_uid, kind.st_gid)


def _clear(place: str) -> None:
    if is_directory(place):
        untrusted.remove_tree(place)
    else:
        with suppress(FileNotFoundError):
            os.unlink(place)


def _is_opaque(path: str) -> bool:
    with suppress(OSError):
        return os.getxattr(path, OPAQUE_MARK) == b"y"
    return False
