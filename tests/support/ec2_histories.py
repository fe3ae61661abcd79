"""`Ec2History`: a history of burst runs on EC2, through boto3; the books of the proxy are the judge."""

from __future__ import annotations

from collections import Counter
from types import MappingProxyType

from burst_histories import BurstHistory
from ec2_answers import REFUSALS, Ec2Error
from ec2_inside import Ec2Account
from ec2_proxy import Ec2, Ec2Fault
from fake_provider import CREATE, DELETE, LIST, Entry
from tarmac.model.burst.provider import Refusal, ThingKind

_THROTTLED = Ec2Error(503, "RequestLimitExceeded", "Request limit exceeded.")
_INTERNAL = Ec2Error(500, "InternalError", "An internal error has occurred")
_EVERYWHERE = ("throttled", "lost before", "slow", "too slow")
_CHANGES = (*_EVERYWHERE, "lost after", "internal error")
_OPERATIONS = {
    "RunInstances": CREATE,
    **dict.fromkeys(("TerminateInstances", "DeleteVolume", "ReleaseAddress"), DELETE),
}


class Ec2History(BurstHistory):
    """A fault may come at each call of EC2: a list has several, and so has a create."""

    account = Ec2Account
    faults = MappingProxyType(
        {CREATE: ("no capacity", "quota", "late", *_CHANGES), LIST: _EVERYWHERE, DELETE: _CHANGES}
    )

    def _expect_faults(self) -> None:
        self.ec2.draw = lambda action: self._ec2_fault(self._drawn(_OPERATIONS.get(action, LIST)))
        self.ec2.pass_time = self.lab.simulation.clock.advance

    def _share(self, operation: str) -> float:
        return self.fault_share / 4 if operation == LIST else self.fault_share

    @property
    def ec2(self) -> Ec2:
        return self.lab.aws.ec2

    def _ec2_fault(self, what: str | None) -> Ec2Fault | None:
        match what:
            case "no capacity":
                return Ec2Fault(error=Ec2Error(*REFUSALS[Refusal.NO_CAPACITY]))
            case "quota":
                return Ec2Fault(error=Ec2Error(*REFUSALS[Refusal.QUOTA]))
            case "throttled":
                return Ec2Fault(error=_THROTTLED)
            case "internal error":
                return Ec2Fault(error=_INTERNAL, after=self.random.random() < 0.5)
            case "slow":
                return Ec2Fault(after=True, slow_s=self.random.choice((5.0, 40.0)))
            case "too slow":
                return Ec2Fault(after=True, slow_s=self.ec2.patience_s)
            case "late":
                return Ec2Fault(after=True, late_s=self.random.choice((1.0, 20.0, 60.0)))
        return None if what is None else Ec2Fault(after=what == "lost after")

    def _announces(self, entry: Entry) -> bool:
        return entry.machine == "spot"

    def _check_end(self) -> None:
        """No token has two sets of machines, no request more than it wanted; moto has nothing else left."""
        super()._check_end()
        rented = [each for each in self.ec2.books if each.run]
        machines = [each for each in rented if each.kind is ThingKind.MACHINE]
        self.seen["shown late"] += sum(each.visible_at > each.created_at for each in machines)
        self.seen["shutting-down"] += sum(each.gone_at > each.leaving_at for each in machines)
        self.seen["addresses"] += sum(each.kind is ThingKind.ADDRESS for each in rented)
        self.seen["disks left"] += sum(each.kind is ThingKind.DISK and not each.disk_of for each in rented)
        of_tokens = Counter(each for _, ids, _ in self.ec2.tokens.values() for each in ids)
        assert of_tokens == Counter(each.id for each in machines)
        wanted = {each.id: each.machines for each in self.lab.rentals()}
        for request, count in Counter(each.request for each in machines).items():
            assert count == wanted[str(request)], f"{request} has {count} machines"
        assert self.ec2.alive() == {each.id for each in self.strangers}
