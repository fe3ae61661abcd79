"""The common state of the gateway's routes. Made by `application.build`, and by tests over fakes."""

from __future__ import annotations

from dataclasses import dataclass, field

from tarmac.model.experiment import Experiments
from tarmac.model.numbering import Numbers
from tarmac.model.run_records import RunRecords
from tarmac.server.service import Service
from tarmac.systems.determined.gateway.gatherings import Gatherings
from tarmac.systems.determined.gateway.tokens import TokenMaker

VERSION = "0.38.1"
"""The emulated release of Determined: its answers are those of older releases with additional fields."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Gateway:
    """The parts of a gateway. `tokens` makes and reads the tokens of sessions; `owner` owns the server.

    `records` stores the trials' own records.
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
        """The table of experiments."""
        return self.service.plane.control.store.experiments
