"""`determined` inside a run of that dialect: the installed package if there is one, with tarmac's launchers.

Start-up puts the directory above at the end of PYTHONPATH, which precedes installed packages; so this module
first searches for an installed one. In both cases `determined.launch` is the one beside this file.
"""

from __future__ import annotations

import importlib.machinery
import importlib.util
import os
import sys
from typing import Any

_OURS = os.path.dirname(os.path.abspath(__file__))
_others = [place for place in sys.path if os.path.abspath(place or os.curdir) != os.path.dirname(_OURS)]
_spec = importlib.machinery.PathFinder.find_spec("determined", _others)
if _spec is not None and _spec.loader is not None and _spec.submodule_search_locations:
    _module = importlib.util.module_from_spec(_spec)
    _module.__path__ = [_OURS, *_spec.submodule_search_locations]
    sys.modules[__name__] = _module
    _spec.loader.exec_module(_module)
else:

    def __getattr__(name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        raise ModuleNotFoundError(f"determined.{name}: the package 'determined' is not installed here")
