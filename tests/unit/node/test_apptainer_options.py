"""The command line of Apptainer, as rehearsals without it read it: `node/apptainer/options.py`."""

from __future__ import annotations

import pytest

from tarmac.node.apptainer.options import RunRequest, parse
from tarmac.node.kernel.mountplan import Bind


def test_options_of_mantiks_document_are_read() -> None:
    """K2: a string or a list of them, before the image; what follows it is the command's."""
    found = parse(["--nv", "-B", "/data:/data,/in:/out:ro", "--env=A=1", "image.sif", "python", "-c", "x"])
    binds = (Bind("/data", "/data"), Bind("/in", "/out", read_only=True))
    assert found == RunRequest("image.sif", ("python", "-c", "x"), binds, {"A": "1"}, devices=True)


def test_options_without_a_meaning_here_are_named() -> None:
    found = parse(["--fakeroot", "--home", "/h", "--pwd", "/w", "-e", "i", "a"])
    assert (found.ignored, found.directory, found.clean) == (("--fakeroot", "--home"), "/w", True)
    for words in ([], ["--nv"], ["--bind"]):
        with pytest.raises(ValueError, match=r"no image|no value"):
            parse(words)
