"""Pictures by matplotlib, an extra that is imported when something is drawn. Used by views that plot."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tarmac.model.errors import InvalidInput, Unavailable
from tarmac.node.files import untrusted

if TYPE_CHECKING:
    from matplotlib.figure import Figure

KINDS = (".png", ".svg")

COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#000000", "#999933")
"""The palette of Okabe and Ito, which colour-blind people can distinguish."""


def require_plotting(file: str, otherwise: str = "") -> None:
    """Raise InvalidInput if `file` cannot be drawn, and Unavailable without matplotlib, before any work.

    `otherwise` says how to do without a file.
    """
    path = Path(file)
    if path.suffix.lower() not in KINDS:
        raise InvalidInput(
            f"--plot {file!r}: name a file that ends in {' or '.join(KINDS)}", hint=otherwise or None
        )
    if not path.parent.is_dir():
        raise InvalidInput(f"--plot {file!r}: there is no directory {str(path.parent)!r}")
    if find_spec("matplotlib") is None:
        raise Unavailable(
            "--plot FILE needs matplotlib, and it is not installed here",
            hint=f"install matplotlib for {sys.executable}{otherwise and f'; {otherwise}'}",
        )


@contextmanager
def picture(path: Path, width: float, height: float) -> Iterator[Figure]:
    """A figure of this size in inches, which replaces the file at the end; raises OSError."""
    import matplotlib as mpl
    from matplotlib.figure import Figure

    with mpl.rc_context({"font.size": 9, "svg.hashsalt": "tarmac"}):
        figure = Figure(figsize=(width, height), layout="constrained")
        yield figure
        for axes in figure.axes:
            axes.grid(visible=True, color="#dddddd", linewidth=0.6)
            axes.set_axisbelow(True)
            for side in ("top", "right"):
                axes.spines[side].set_visible(False)
        dateless: dict[str, Any] = {"Date": None} if path.suffix.lower() == ".svg" else {}
        drawn = BytesIO()
        figure.savefig(drawn, format=path.suffix[1:].lower(), dpi=150, metadata=dateless)
    untrusted.replace(str(path), drawn.getvalue())
