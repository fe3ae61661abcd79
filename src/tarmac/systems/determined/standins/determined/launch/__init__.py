"""The launchers of `determined.launch`; the installed package provides those that tarmac lacks."""

from __future__ import annotations

import os
import sys

_parents = getattr(sys.modules[__name__.rpartition(".")[0]], "__path__", [])
__path__ += [
    os.path.join(parent, "launch") for parent in _parents if os.path.join(parent, "launch") not in __path__
]
