"""The table `[determined]` of the settings: the gateway's address, and defaults for experiments."""

from collections.abc import Mapping
from typing import Annotated, Any

from msgspec import Meta, Struct
from msgspec.structs import asdict


class DeterminedSettings(Struct, frozen=True, kw_only=True):
    """`listen` is the address of the gateway."""

    listen: str | None = None
    task_container_defaults: Mapping[str, Any] | None = None
    checkpoint_storage: Mapping[str, Any] | None = None
    default_priority: Annotated[int, Meta(ge=1)] = 42
    library: str | None = None

    @property
    def of_experiments(self) -> Mapping[str, Any]:
        """The given values for all experiments, which `defaults` reads."""
        values = asdict(self).items()
        return {name: value for name, value in values if value is not None and name != "listen"}
