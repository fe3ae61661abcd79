"""`import clusterfudge` in a script under `tarmac launch`: the package `scripts` above, by that name.

The directory above comes first on the script's path, before an installed Clusterfudge client.
"""

from __future__ import annotations

import importlib.util
import os
import sys

_PACKAGE = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

_spec = importlib.util.spec_from_file_location(
    __name__, os.path.join(_PACKAGE, "__init__.py"), submodule_search_locations=[_PACKAGE]
)
assert _spec is not None
assert _spec.loader is not None
_module = importlib.util.module_from_spec(_spec)
sys.modules[__name__] = _module
_spec.loader.exec_module(_module)
