"""Optuna's samplers and pruners behind the port of `search`. Used by `server.wiring`.

This package alone imports Optuna, which is an extra (`optuna`), and only when the first search needs it.
"""

import sys
from collections.abc import Mapping
from importlib.util import find_spec
from typing import Any

from tarmac.model.errors import InvalidInput
from tarmac.model.search import SAMPLERS, SearchMethod, SearchSpec
from tarmac.search.searching import Search


def searcher_of(spec: SearchSpec, state: Mapping[str, Any] | None) -> Search:
    """Begin a search (no state), or continue one; raises InvalidInput if Optuna is needed and missing."""
    if spec.method not in SAMPLERS and spec.pruner is None:
        return Search(spec, state)
    what = f"search.method {spec.method}" if spec.method in SAMPLERS else f"search.pruner {spec.pruner}"
    for module in ("optuna", *(["cmaes"] if spec.method is SearchMethod.CMA_ES else [])):
        if find_spec(module) is None:
            raise InvalidInput(
                f"{what} needs the package {module!r}, and the server does not have it",
                hint=f"install {module} for {sys.executable}, or use random or adaptive_asha",
            )
    from tarmac.samplers.learning import LearningSampler  # noqa: PLC0415 - takes a second, and is an extra

    return Search(spec, state, sampler=LearningSampler(spec))
