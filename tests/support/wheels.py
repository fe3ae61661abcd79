"""Tiny Python packages made on the spot, so that tests install without any index."""

from __future__ import annotations

import zipfile
from collections.abc import Sequence
from pathlib import Path


def make_wheel(
    directory: Path,
    name: str,
    version: str = "1.0",
    *,
    source: str = "",
    script: str | None = None,
    package: bool = False,
) -> Path:
    """A wheel with one module (or `package`) of that name; with `script`, its `main` as a command too."""
    directory.mkdir(parents=True, exist_ok=True)
    info = f"{name}-{version}.dist-info"
    files = {
        f"{name}/__init__.py" if package else f"{name}.py": source or f"VERSION = {version!r}\n",
        f"{info}/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n",
        f"{info}/WHEEL": "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    if script is not None:
        files[f"{info}/entry_points.txt"] = f"[console_scripts]\n{script} = {name}:main\n"
    files[f"{info}/RECORD"] = _record([*files, f"{info}/RECORD"])
    path = directory / f"{name}-{version}-py3-none-any.whl"
    with zipfile.ZipFile(path, "w") as archive:
        for file, text in files.items():
            archive.writestr(file, text)
    return path


def _record(files: Sequence[str]) -> str:
    return "".join(f"{file},,\n" for file in files)
