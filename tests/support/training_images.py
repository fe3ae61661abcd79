"""An image with Python and PyTorch, made of those that run the tests: a root file system of hard links.

For tests that train in an image. Nothing in it is ever written: an attempt writes above it.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Iterable, Iterator
from pathlib import Path

from images import BUSYBOX

_LIBRARY = re.compile(r"^\s*(?:\S+ => )?(/\S+) \(0x", re.MULTILINE)
_LEFT_OUT = shutil.ignore_patterns(
    "__pycache__", "*.pth", "test", "tests", "include", "mypy*", "ruff*", "tarmac*"
)
PYTHON_PATH = f"{sys.base_prefix}/bin:/bin"


def write_training_image(root: Path) -> Path:
    """Fill the directory `root` with a file system in which `python` imports torch and scikit-learn."""
    standard, packages = (Path(sysconfig.get_path(kind)) for kind in ("stdlib", "purelib"))
    write_interpreter(root)
    own = _inside(standard, root) / "site-packages"
    shutil.copytree(packages, own, copy_function=_link_or_copy, ignore=_LEFT_OUT, symlinks=True)
    copy_programs(_torch(packages), root, itself=False)
    shell = _inside(Path("/bin/sh"), root)
    _link_or_copy(str(BUSYBOX), str(shell))
    return root


def write_interpreter(root: Path) -> None:
    """Add `python` and the standard library."""
    prefix, standard = Path(sys.base_prefix), Path(sysconfig.get_path("stdlib"))
    _link(Path(sys.executable).resolve(), root)
    for name in ("python", "python3"):
        link = _inside(prefix / "bin" / name, root)
        link.symlink_to(Path(sys.executable).resolve())
    shutil.copytree(
        standard,
        _inside(standard, root),
        copy_function=_link_or_copy,
        ignore=lambda place, names: {*_LEFT_OUT(place, names), *({"site-packages"} & set(names))},
    )
    copy_programs([Path(sys.executable), *(standard / "lib-dynload").glob("*.so")], root, itself=False)


def copy_programs(programs: Iterable[Path], root: Path, *, itself: bool = True) -> None:
    """Add programs of this machine with the libraries that they load."""
    every = list(programs)
    for path in {*_libraries(every), *(every if itself else ())}:
        _link(path, root)


def _torch(packages: Path) -> Iterator[Path]:
    yield from (packages / "torch").glob("_C*.so")
    yield from (packages / "torch/lib").glob("libtorch*.so")


def _libraries(programs: Iterable[Path]) -> set[Path]:
    """The libraries of the machine that these load, with what loads them."""
    listed = subprocess.run(["ldd", *map(str, programs)], capture_output=True, text=True, check=False).stdout
    return {Path(path) for path in _LIBRARY.findall(listed) if "site-packages" not in path}


def _link(source: Path, root: Path) -> None:
    place = _inside(source, root)
    if not place.exists():
        _link_or_copy(str(source.resolve()), str(place))


def _inside(path: Path, root: Path) -> Path:
    place = root / path.relative_to("/")
    place.parent.mkdir(parents=True, exist_ok=True)
    return place


def _link_or_copy(source: str, target: str) -> None:
    try:
        os.link(source, target)
    except OSError:
        shutil.copy(source, target)
