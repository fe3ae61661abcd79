"""Hook: write the small files of an attempt for its workers, such as parameters. Called by `runner`."""

from __future__ import annotations

import os

from tarmac.node.noderun import NodeRun


def write_files(run: NodeRun) -> None:
    """Write the files below the node's own directory, readable only by the run's user."""
    for name, text in run.part.files.items():
        path = os.path.join(run.node.files, name)
        if os.path.commonpath([os.path.realpath(path), os.path.realpath(run.node.files)]) != os.path.realpath(
            run.node.files
        ):
            raise OSError(f"the file {name!r} would lie outside its directory")
        os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with open(descriptor, "w", encoding="utf-8") as file:
            file.write(text)
