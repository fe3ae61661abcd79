"""What every route of the gateway works with. Made by `application.build`, and by tests over fakes."""

from __future__ import annotations

from dataclasses import dataclass, field

from tarmac.model.experiment import Experiments
from tarmac.model.numbering import Numbers
from tarmac.model.run_records import RunRecords
from tarmac.server.determined.gatherings import Gatherings
from tarmac.server.determined.tokens import TokenMaker
from tarmac.server.service import Service

VERSION = "0.38.1"
"""The release of Determined whose answers these are: those of older ones, with fields that came later."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Gateway:
    """The parts of a gateway. `tokens` makes and reads the tokens of sessions; `owner` owns the server.

    `records` is what trials keep with it.
    """

    service: Service
    numbers: Numbers
    records: RunRecords
    tokens: TokenMaker
    owner: str
    url: str
    gatherings: Gatherings = field(default_factory=Gatherings)

    @property
    def experiments(self) -> Experiments:
        """The record of experiments."""
        return self.service.plane.control.store.experiments
