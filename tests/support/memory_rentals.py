"""`MemoryRentals`: providers, shapes and rentals as a fake. Made by `MemoryStore`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager

from tarmac.model.actor import Lease
from tarmac.model.burst.provider import ProviderRecord
from tarmac.model.burst.rentals import Rental, RentalStep
from tarmac.model.burst.shapes import Shape, Stock
from tarmac.store.checks import check_rental, check_texts


class MemoryRentals:
    """Implements `model.burst.rentals.Rentals` in memory."""

    def __init__(
        self, writing: AbstractContextManager[object], fence: Callable[[Lease | None], None]
    ) -> None:
        self._writing, self._fence = writing, fence
        self._providers: dict[str, ProviderRecord] = {}
        self._shapes: dict[str, Shape] = {}
        self._stock: dict[str, Stock] = {}
        self._rentals: dict[str, Rental] = {}

    def providers(self) -> list[ProviderRecord]:
        return [record for _, record in sorted(self._providers.items())]

    def put_provider(self, record: ProviderRecord) -> None:
        check_texts({"the name of the provider": record.name})
        with self._writing:
            self._providers[record.name] = record

    def remove_provider(self, name: str) -> bool:
        with self._writing:
            if any(each.shape is not None and each.shape.provider == name for each in self.open_rentals()):
                return False
            self._providers.pop(name, None)
            self._shapes = {id_: each for id_, each in self._shapes.items() if each.provider != name}
            return True

    def shapes(self) -> list[Shape]:
        return [shape for _, shape in sorted(self._shapes.items())]

    def put_shapes(self, shapes: Sequence[Shape], *, replacing: str | None = None) -> None:
        for each in shapes:
            check_texts({"the provider of the shape": each.provider})
        with self._writing:
            kept = {id_: each for id_, each in self._shapes.items() if each.provider != replacing}
            self._shapes = kept | {each.id: each for each in shapes}

    def remove_shape(self, shape_id: str) -> bool:
        with self._writing:
            return self._shapes.pop(shape_id, None) is not None

    def stock(self) -> list[Stock]:
        return [each for _, each in sorted(self._stock.items())]

    def put_stock(self, stock: Stock) -> None:
        with self._writing:
            self._stock[stock.shape] = stock

    def apply(self, steps: Sequence[RentalStep], *, lease: Lease | None = None) -> list[bool]:
        for step in steps:
            check_rental(step)
        taken = []
        with self._writing:
            self._fence(lease)
            for step in steps:
                new, known = step.after, self._rentals.get(step.after.id)
                numbers = {(each.run_id, each.number) for each in self._rentals.values()}
                free = known is None and (new.run_id, new.number) not in numbers
                fits = free if step.before is None else known is not None and known.seq == step.before.seq
                taken.append(fits)
                if fits:
                    self._rentals[new.id] = new
        return taken

    def open_rentals(self) -> list[Rental]:
        return [each for _, each in sorted(self._rentals.items()) if each.open]

    def rentals(self, *, run_ids: Sequence[str] | None = None, since: float = 0.0) -> list[Rental]:
        found = [
            each
            for each in self._rentals.values()
            if (run_ids is None or each.run_id in run_ids) and (each.open or each.requested_at >= since)
        ]
        return sorted(found, key=lambda each: (each.requested_at, each.id))
