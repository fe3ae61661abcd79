"""`import tarmac` inside a run: an installed tarmac if the run's own environment has one, else the SDK alone.

The runner puts the directory above at the end of PYTHONPATH, which precedes installed packages; so this
module first searches for an installed one.
"""

from __future__ import annotations

import importlib.machinery
import importlib.util
import os
import sys

_OURS = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))


def _installed() -> importlib.machinery.ModuleSpec | None:
    """The module spec of the tarmac that would be found if this directory were not on the path."""
    others = [place for place in sys.path if os.path.abspath(place or os.curdir) != _OURS]
    for finder in sys.meta_path:
        places = others if finder is importlib.machinery.PathFinder else None
        spec = finder.find_spec("tarmac", places)
        if spec is not None and spec.loader is not None and spec.origin != __file__:
            return spec
    return None


_spec = _installed()
if _spec is not None and _spec.loader is not None:
    _module = importlib.util.module_from_spec(_spec)
    sys.modules[__name__] = _module
    _spec.loader.exec_module(_module)
else:
    # The rest is in this file's package: .../node/shim/tarmac/__init__.py
    __path__ = [os.path.dirname(os.path.dirname(_OURS))]
    from tarmac.node.sdk import (
        checkpoint,
        finished,
        latest_checkpoint,
        parameters,
        report,
        should_pause,
        time_left,
    )

    __all__ = [
        "checkpoint",
        "finished",
        "latest_checkpoint",
        "parameters",
        "report",
        "should_pause",
        "time_left",
    ]
