"""Removes secrets from a configuration before a run passes it on as facts, variables or files.

Called by `reader`.
"""

from collections.abc import Mapping
from typing import Any

from tarmac.node.files.secrecy import is_reference, names_secret

MASK = "********"

_SECTIONS = frozenset(
    {"checkpoint_storage", "environment", "integrations", "data_layer", "tensorboard_storage", "security"}
)


def mask(config: Mapping[str, Any]) -> dict[str, Any]:
    """The configuration with stars in place of secrets; user data and hyperparameters stay unchanged."""
    return {key: _masked(value) if key in _SECTIONS else value for key, value in config.items()}


def holds_secret(config: Mapping[str, Any]) -> bool:
    """Whether one of the configuration's own fields holds a secret."""
    return any(_masked(config[key]) != config[key] for key in _SECTIONS & config.keys())


def _masked(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {
            key: MASK if names_secret(key) and _is_one(item) else _masked(item) for key, item in value.items()
        }
    if isinstance(value, (list, tuple)):
        return [_masked(item) for item in value]
    return _variable(value) if isinstance(value, str) else value


def _variable(text: str) -> str:
    """The variable `NAME=VALUE` without its value if its name suggests a secret."""
    name, equals, value = text.partition("=")
    if equals and name.isidentifier() and names_secret(name) and not is_reference(value):
        return f"{name}={MASK}"
    return text


def _is_one(item: Any) -> bool:
    """Whether this is a secret itself, not a reference to one."""
    return (
        isinstance(item, str | int | float)
        and bool(item)
        and not (isinstance(item, str) and is_reference(item))
    )
