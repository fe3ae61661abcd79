"""What a code store holds, as trees: made by the runner's own hook, and listed."""

from __future__ import annotations

import tempfile
from pathlib import Path

from tarmac.node.files.codestore import PACKS, is_digest
from tarmac.node.hooks.code import make_tree


def copied(root: Path, digest: str) -> Path:
    """A working directory made from a snapshot, as on a node; it lies beside the store."""
    target = Path(tempfile.mkdtemp(prefix="work-", dir=root.parent))
    make_tree(str(root / digest), str(target), lambda: None)
    return target


def snapshots_in(root: Path) -> list[str]:
    """The snapshots of a store; anything else in it but its packs would be a leftover."""
    names = [path.name for path in root.iterdir() if path.name != PACKS]
    assert all(map(is_digest, names)), names
    assert all(path.suffix == ".pack" for path in (root / PACKS).iterdir())
    return names


def nothing_kept(root: Path) -> bool:
    """Whether a store holds neither snapshots nor packs, nor leftovers of either."""
    return [path.name for path in root.rglob("*")] in ([], [PACKS])
