"""`FakeRented`: clusters of machines of a `FakeProvider`, which the simulated engine serves."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from fake_provider import FakeProvider
from sim_engine import SimEngine
from tarmac.control.burst.renter import BurstParts
from tarmac.model.burst.provider import Provider, ProviderRecord
from tarmac.model.burst.rentals import Rental
from tarmac.model.cluster import Cluster, MachineProgress, NodeGroup, NodeState, Pool, node_name
from tarmac.model.errors import InvalidInput, Unavailable


class FakeKind:
    """A kind of provider whose accounts are those of a test, by the name of the provider."""

    def __init__(self, accounts: Mapping[str, FakeProvider]) -> None:
        self._accounts = accounts

    def check(self, record: ProviderRecord) -> None:
        if record.name not in self._accounts:
            raise InvalidInput(f"there is no account {record.name}")

    def open(self, record: ProviderRecord) -> Provider:
        return self._accounts[record.name]


def limit_of(script: str) -> float | None:
    """The time limit in the script of a `FakeRented`."""
    word = script.partition(" ")[2]
    return float(word) if word else None


class FakeRented:
    """Implements `model.burst.rentals.RentedClusters`. `disturb` may raise Unavailable or InvalidInput."""

    def __init__(self, accounts: Mapping[str, FakeProvider]) -> None:
        self.accounts = accounts
        self.nodes: dict[str, str] = {}  # the node that a machine is, by the machine's id
        self.started: list[str] = []
        self.forgotten: set[str] = set()
        self.disturb: Callable[[str], None] = lambda _call: None

    def script(self, rental: Rental, *, limit_s: float | None) -> str:
        return "limit" if limit_s is None else f"limit {limit_s!r}"

    def start(self, rental: Rental, progress: MachineProgress) -> Cluster:
        self.disturb("start")
        assert rental.shape is not None
        account = self.accounts[rental.shape.provider]
        machines = rental.machines_known
        for each in machines:
            entry = account.books.entries[each.id]
            if not entry.running_at <= account.now() < entry.leaving_at:
                raise Unavailable(f"{each.address} cannot be reached")
            progress(each.id, "joined")
            self.nodes[each.id] = node_name(rental.cluster, each.id)
        self.started.append(rental.id)
        group = NodeGroup(
            nodes=len(machines),
            slots=rental.shape.slots,
            slot_type=rental.shape.slot_type,
            cpus=8.0,
            memory_bytes=2**35,
            hostnames=tuple(each.id for each in machines),
        )
        pools = (Pool(cluster=rental.cluster, credits_per_slot_hour=0.0),)
        return Cluster(name=rental.cluster, groups=(group,), server=rental.server, pools=pools)

    def keep_alive(self, rental: Rental) -> None:
        self.disturb("keep")
        assert rental.shape is not None
        self.accounts[rental.shape.provider].heard(rental.id)

    def keep_files(self, rental: Rental) -> None:
        self.disturb("files")

    def forget(self, rental: Rental) -> None:
        self.forgotten.add(rental.id)

    def lose(self, engine: SimEngine) -> None:
        """The engine loses the nodes whose machines are gone."""
        for account in self.accounts.values():
            for entry in account.books:
                if entry.id in self.nodes and not entry.exists(account.now()):
                    engine.set_node(self.nodes.pop(entry.id), NodeState.LOST)


def burst_parts(account: FakeProvider) -> BurstParts:
    """Parts that rent from one account, of the provider `lab`."""
    accounts = {"lab": account}
    return BurstParts(kinds={"fake": FakeKind(accounts)}, rented=FakeRented(accounts))
