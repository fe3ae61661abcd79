"""What clients send, tried with everything that may not be (C7): refused, nothing kept, nothing written."""

from __future__ import annotations

import hashlib
import io
import tarfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from code_trees import nothing_kept, snapshots_in
from examples import examples
from tarmac.artifacts.code.arrivals import HEADER, Arrivals
from tarmac.artifacts.code.store import DirectoryCodeStore
from tarmac.model.errors import InvalidInput, Refused, TarmacError

TEXT = b"print('hello')\n"
HASH = hashlib.sha256(TEXT).hexdigest()
FILE = ["f", 0o644, "a.py", HASH, 0]


def pack(*contents: bytes, named: str | None = None, length: int | None = None) -> bytes:
    """Contents as they are sent; `named` and `length` say something else than is true."""
    return b"".join(
        HEADER.pack(
            bytes.fromhex(named or hashlib.sha256(content).hexdigest()),
            len(content) if length is None else length,
        )
        + content
        for content in contents
    )


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "home" / "code"


@pytest.fixture
def arrivals(root: Path) -> Arrivals:
    return Arrivals(DirectoryCodeStore(root))


@pytest.fixture
def send(arrivals: Arrivals) -> Callable[..., Any]:
    def sent(path: str, body: Any) -> Any:
        if path == "/code/missing":
            return {"missing": arrivals.missing(body["contents"])}
        if path == "/code/trees":
            return {"digest": arrivals.commit(body)}
        with arrivals.receive() as receiver:
            for at in range(0, len(body), 1000):
                receiver.feed(body[at : at + 1000])
            return receiver.finish()

    return sent


@pytest.mark.parametrize(
    ("entries", "why"),
    [
        ([["f", 0o644, "../a", HASH, 0]], "leads out"),
        ([["f", 0o644, "d/../../a", HASH, 0]], "leads out"),
        ([["f", 0o644, "/etc/passwd", HASH, 0]], "not a relative name"),
        ([["d", 0o755, ""]], "not a relative name"),
        ([["f", 0o644, "a//b", HASH, 0]], "not a plain name"),
        ([["f", 0o644, "./a", HASH, 0]], "not a plain name"),
        ([["f", 0o644, "a\0b", HASH, 0]], "zero byte"),
        ([["f", 0o644, "\ud800", HASH, 0]], "not one that a file can have"),
        ([["f", 0o644, "n" * 256, HASH, 0]], "longer than a name may be"),
        ([["d", 0o755, "/".join("d" * 200)]], "deeper than"),
        ([FILE, FILE], "there twice"),
        ([FILE, ["d", 0o755, "a.py"]], "there twice"),
        ([FILE, ["f", 0o644, "a.py/b", HASH, 0]], "which is a file"),
        ([["l", "d", "l"], ["d", 0o755, "d"], ["f", 0o644, "l/b", HASH, 0]], "which is a link"),
        ([["f", 0o644, "d/b", HASH, 0]], "not in the list"),
        ([["l", "/etc/passwd", "l"]], "leaves the directory"),
        ([["l", "../x", "l"]], "leaves the directory"),
        ([["d", 0o755, "d"], ["l", "..", "d/up"], ["l", "d/up/../x", "l"]], "leaves the directory"),
        ([["l", "m/../../x", "l"], ["l", ".", "m"]], "leaves the directory"),
        ([["l", "", "l"]], "no possible name"),
        ([["c", 0o644, "device", HASH, 0]], "not an entry"),
        ([["f", "rwx", "a", HASH, 0]], "not an entry"),
        ([["f", 0o644, "a", "../../etc/passwd", 0]], "not a SHA-256"),
        ([["f", 0o644, "a", HASH.upper(), 0]], "not a SHA-256"),
        ([["f", 0o644, "a", HASH, 10**30]], "not an entry"),
        ("everything", "must be a list"),
        ([7], "not an entry"),
    ],
)
def test_a_tree_that_may_not_be_is_refused_and_nothing_is_kept_c7(
    send: Callable[..., Any], root: Path, entries: Any, why: str
) -> None:
    send("/code/packs", pack(TEXT))
    before = sorted(path.name for path in root.parent.parent.rglob("*"))
    with pytest.raises(InvalidInput, match=why):
        send("/code/trees", {"path": "x", "entries": entries})
    assert sorted(path.name for path in root.parent.parent.rglob("*")) == before
    assert snapshots_in(root) == []


@pytest.mark.parametrize(
    ("sent", "why"),
    [
        (pack(TEXT, named="0" * 64), "not what its hash"),
        (pack(TEXT, length=4), "not what its hash"),
        (pack(TEXT, length=1 << 60), "middle of a content"),
        (b"garbage", "middle of a content"),
        (pack(TEXT, b"x" * (3 << 20), named=HASH), "not what its hash"),
    ],
)
def test_a_pack_that_lies_is_refused_whole_c7(
    send: Callable[..., Any], root: Path, sent: bytes, why: str
) -> None:
    with pytest.raises(InvalidInput, match=why):
        send("/code/packs", sent)
    assert nothing_kept(root)
    assert send("/code/missing", {"contents": [HASH]}) == {"missing": [HASH]}


def test_a_tree_whose_contents_are_not_here_is_refused_c7(send: Callable[..., Any], root: Path) -> None:
    with pytest.raises(Refused, match="is not here"):
        send("/code/trees", {"path": "x", "entries": [FILE]})
    assert nothing_kept(root)


def test_a_hostile_archive_that_was_sent_is_refused_c7(send: Callable[..., Any], root: Path) -> None:
    made = io.BytesIO()
    with tarfile.open(fileobj=made, mode="w") as archive:
        archive.addfile(tarfile.TarInfo("../../evil"), io.BytesIO())
    content = made.getvalue()
    send("/code/packs", pack(content))
    with pytest.raises(InvalidInput, match="leads out of the directory"):
        send("/code/trees", {"path": "x.tar", "archive": hashlib.sha256(content).hexdigest()})
    assert snapshots_in(root) == []


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.just(HASH),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=12,
)
TREES = st.fixed_dictionaries(
    {},
    optional={
        "path": st.just("x") | JSON,
        "entries": st.lists(
            st.tuples(st.sampled_from("dlfx"), JSON, st.text() | JSON).map(list)
            | st.tuples(st.just("f"), st.integers(), st.text(), st.just(HASH), st.integers()).map(list)
            | JSON
        ),
        "archive": st.just(HASH) | JSON,
        "exclude": st.lists(st.text()) | JSON,
        "limit_bytes": JSON,
    },
)


@settings(max_examples=examples(150), deadline=None)
@given(TREES | JSON)
def test_any_tree_gives_a_snapshot_or_an_error_of_ours_c7(
    tmp_path_factory: pytest.TempPathFactory, tree: Any
) -> None:
    root = tmp_path_factory.mktemp("any") / "code"
    arrivals = Arrivals(DirectoryCodeStore(root))
    with arrivals.receive() as receiver:
        receiver.feed(pack(TEXT))
        receiver.finish()
    try:
        digest = arrivals.commit(tree)
    except TarmacError:
        assert snapshots_in(root) == []
    else:
        assert snapshots_in(root) == [digest]
