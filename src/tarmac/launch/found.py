"""What a run finds on its nodes beside its code: small files, and literal paths. Called by `compose`."""

from __future__ import annotations

import json
from collections.abc import Mapping

from tarmac.launch import variables
from tarmac.model.launch import Mount
from tarmac.model.spec import RunSpec

_PARAMETERS = "config/parameters.json"


def files(spec: RunSpec) -> Mapping[str, str]:
    """The small files of every node, by relative path."""
    if spec.parameters is None:
        return {}
    return {_PARAMETERS: json.dumps(spec.parameters, indent=2, ensure_ascii=False) + "\n"}


def mounts(spec: RunSpec) -> tuple[Mount, ...]:
    """The literal paths of every node; what the file binds below the working directory stays relative."""
    binds = tuple(
        Mount(source=bind.source, target=bind.target, read_only=bind.read_only) for bind in spec.binds
    )
    if spec.parameters is None:
        return binds
    return (
        *binds,
        Mount(source=_PARAMETERS, target=f"/mnt/{_PARAMETERS}", variables=(variables.PARAMETERS,)),
    )
