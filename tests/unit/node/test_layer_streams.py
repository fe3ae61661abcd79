"""The bytes of a layer over connections that break: `node/container/streams.py`."""

from __future__ import annotations

import io
import os
from collections.abc import Callable, Iterator
from typing import IO

import pytest

from images import digest_of
from tarmac.node.container import failures
from tarmac.node.container.failures import ImageProblem
from tarmac.node.container.manifests import Piece
from tarmac.node.container.streams import LayerStream

CONTENT = os.urandom(20 * 1024**2)
PIECE = Piece(digest_of(CONTENT), len(CONTENT))
GONE = ImageProblem(failures.UNREACHABLE, "it cannot be reached")


def opener(ends: Iterator[int | ImageProblem]) -> Callable[[str, int], IO[bytes]]:
    """Connections that each bring what is left of the layer up to such an offset, or are refused."""

    def open_from(_: str, offset: int) -> IO[bytes]:
        end = next(ends)
        if isinstance(end, ImageProblem):
            raise end
        return io.BytesIO(CONTENT[offset:end])

    return open_from


def read(ends: list[int | ImageProblem], pauses: list[float]) -> bytes:
    with LayerStream(PIECE, opener(iter(ends)), lambda _: None, pause=pauses.append) as stream:
        found = stream.readall()
        stream.check()
        return found


def test_any_number_of_breaks_is_survived_as_long_as_more_comes() -> None:
    """A layer of gigabytes over a bad line."""
    pauses: list[float] = []
    assert read([*range(2 * 1024**2, len(CONTENT), 2 * 1024**2), len(CONTENT)], pauses) == CONTENT
    assert set(pauses) == {0.0}


def test_a_registry_that_starts_anew_is_waited_for() -> None:
    pauses: list[float] = []
    assert read([3_000_000, GONE, GONE, len(CONTENT)], pauses) == CONTENT
    assert sum(pauses) >= 1.0


def test_a_registry_that_is_gone_ends_the_pull_with_how_far_it_came() -> None:
    with pytest.raises(ImageProblem, match=r"breaks off after 2\.9 MiB of 20\.0 MiB of a layer") as found:
        read([3_000_000, *[GONE] * 9], [])
    assert found.value.kind == failures.UNREACHABLE
    assert found.value.hint is not None


@pytest.mark.parametrize("kind", [failures.UNKNOWN_IMAGE, failures.CREDENTIALS])
def test_what_a_registry_refuses_is_asked_for_once(kind: str) -> None:
    pauses: list[float] = []
    with pytest.raises(ImageProblem) as found:
        read([ImageProblem(kind, "no"), len(CONTENT)], pauses)
    assert (found.value.kind, pauses) == (kind, [])
