"""The hyperparameters of a trial: one value drawn from each, the same for the same seed. Called by `equip`.

The values are not those that Determined would draw: its generator is another.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from tarmac.dialects.determined.identity import fraction_of


def drawn(parameters: Mapping[str, Any], seed: int, prefix: str = "") -> dict[str, Any]:
    """The value of each hyperparameter, nested ones nested."""
    return {
        name: _value(value, seed, f"{prefix}{name}")
        if isinstance(value, Mapping) and "type" in value
        else drawn(value, seed, f"{prefix}{name}.")
        for name, value in parameters.items()
    }


def _value(parameter: Mapping[str, Any], seed: int, path: str) -> Any:
    fraction = fraction_of(str(seed), path)
    match parameter["type"]:
        case "const":
            return parameter.get("val")
        case "categorical":
            values = parameter["vals"]
            return values[int(fraction * len(values))]
        case "int":
            return parameter["minval"] + int(fraction * (parameter["maxval"] - parameter["minval"] + 1))
    try:
        value = parameter["minval"] + fraction * (parameter["maxval"] - parameter["minval"])
        value = parameter["base"] ** value if parameter["type"] == "log" else value
    except OverflowError:
        return parameter["minval"]
    return value if math.isfinite(value) else parameter["minval"]
