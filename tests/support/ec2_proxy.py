"""EC2 as moto serves it, with what moto leaves out: the proxy before it, and its own books.

The same token twice is one request, and another request with it is refused; types, capacity and quotas are
limited; new things appear late, machines are pending and shut down for a time; spot machines are taken back;
calls are throttled, answers slow or lost. Times are those of the test's clock. `ec2_server` serves it over
HTTP, `ec2_inside` to a client in the same process.
"""

from __future__ import annotations

import base64
import threading
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from math import inf
from xml.etree import ElementTree as Xml

from ec2_answers import LISTS, REFUSALS, Ec2Error, answer_of, our_tags, path, rewritten, shown, tag, time_text
from fake_provider import Books, Entry, Knobs
from tarmac.model.burst.provider import Refusal, ThingKind

VERSION = "2016-11-15"
REGION = "eu-north-1"
KEY = "AKIATARMACTEST"
NOTICE_S = 120.0
LISTED_S = 3600.0
"""EC2 lists a terminated machine for about an hour."""


class LostAnswer(Exception):
    """The connection breaks instead of an answer."""


@dataclass(kw_only=True)
class Ec2Fault:
    """One call that fails: with an error, or without an answer. `after`: it has had its effect.

    `late_s`: machines are created this much later. `slow`: its answer waits for this; `slow_s`: it takes
    this much of the test's time, and comes if the caller has so much patience.
    """

    error: Ec2Error | None = None
    after: bool = False
    late_s: float = 0.0
    slow: threading.Event | None = None
    slow_s: float = 0.0


@dataclass
class Ec2:
    """The account. `types` are all known ones; `capacity` of `Knobs` is by type, or by TYPE@SUBNET.

    `forward` asks moto: the status and the body of its answer. `draw` is asked for a fault before each call
    without one; `limit_of` reads the time limit of machines from their script.
    """

    forward: Callable[[Mapping[str, str]], tuple[int, bytes]]
    now: Callable[[], float]
    knobs: Knobs = field(default_factory=lambda: Knobs(listed_gone_s=LISTED_S))
    types: set[str] = field(default_factory=lambda: {"m5.large", "p5.48xlarge"})
    page_size: int | None = None
    draw: Callable[[str], Ec2Fault | None] = lambda action: None
    limit_of: Callable[[str], float | None] = lambda script: None
    pass_time: Callable[[float], None] = lambda seconds: None
    patience_s: float = 60.0

    def __post_init__(self) -> None:
        self.books = Books(self.now)
        self.faults: dict[str, deque[Ec2Fault]] = {}
        self.calls: list[tuple[str, dict[str, str]]] = []
        self.lock = threading.RLock()
        self.tokens: dict[str, tuple[dict[str, str], list[str], bytes]] = {}
        self._answers: dict[object, bytes] = {}  # of moto, and rewritten, until something changes in moto
        self._stops: set[str] = set()
        self._ended: set[str] = set()
        self.release = threading.Event()

    def fail(self, action: str, fault: Ec2Fault) -> None:
        """Let the next call of this action fail."""
        self.faults.setdefault(action, deque()).append(fault)

    # --- calls -------------------------------------------------------------------------------------

    def answer(self, given: dict[str, str], key: str) -> bytes:
        """The answer to one call. Raises Ec2Error, or LostAnswer."""
        action = given["Action"]
        with self.lock:
            self.calls.append((action, given))
            self._check(key)
            faults = self.faults.get(action)
            fault = faults.popleft() if faults else self.draw(action)
            if fault is None or fault.after:
                self._end_in_moto()
                self._late_s = 0.0 if fault is None else fault.late_s
                handler = _HANDLERS.get(action, Ec2._forwarded)
                answer = handler(self, given)
        if fault is None:
            return answer
        if fault.error is not None:
            raise fault.error
        if fault.slow is not None:
            fault.slow.wait(60)
        self.pass_time(min(fault.slow_s, self.patience_s))
        if 0.0 < fault.slow_s < self.patience_s:
            return answer
        raise LostAnswer

    def _check(self, key: str) -> None:
        now, knobs = self.now(), self.knobs
        if knobs.down is not None and knobs.down[0] <= now < knobs.down[1]:
            raise Ec2Error(503, "Unavailable", "The server is overloaded and can't handle the request.")
        if key != KEY or knobs.denied:
            raise Ec2Error(401, "AuthFailure", "AWS was not able to validate the provided access credentials")

    def _forwarded(self, given: Mapping[str, str]) -> bytes:
        """The answer of moto; it is asked again once something may have changed there."""
        action, asked = given["Action"], frozenset(given.items())
        reads = action.startswith("Describe")
        if reads and asked in self._answers:
            return self._answers[asked]
        status, body = self.forward(given)
        if status != 200:
            found = Xml.fromstring(body)
            raise Ec2Error(status, *(found.findtext(path(name), "") for name in ("Code", "Message")))
        if reads:
            self._answers[asked] = body
        else:
            self._answers.clear()
        return body

    def moto(self, action: str, **given: str) -> Xml.Element:
        """The answer of moto itself."""
        return Xml.fromstring(self._forwarded({"Action": action, **given}))

    def subnets(self) -> tuple[str, ...]:
        """Two subnets, each in a zone of its own."""
        found = self.moto("DescribeSubnets").iterfind(path("subnetId"))
        return tuple(each.text or "" for each in found)[:2]

    # --- machines ----------------------------------------------------------------------------------

    def _run_instances(self, given: dict[str, str]) -> bytes:
        if given.get("DryRun") == "true":
            return self._forwarded(given)
        token = given.get("ClientToken", "")
        known = self.tokens.get(token)
        if known is not None:
            if known[0] != given:
                raise Ec2Error(
                    400, "IdempotentParameterMismatch", "Arguments on this idempotent request differ"
                )
            return self._rewritten(known[2])
        self._check_stock(given, int(given["MinCount"]))
        stays = {name: "false" for name in given if name.endswith("DeleteOnTermination")}
        body = self._forwarded({**given, **(stays if self.knobs.disks_stay else {})})
        found = Xml.fromstring(body).findall(path("instancesSet", "item"))
        ids = [self._enter(each, given) for each in found]
        if token:
            self.tokens[token] = dict(given), ids, body
        return self._rewritten(body)

    def _check_stock(self, given: Mapping[str, str], count: int) -> None:
        kind, subnet = given["InstanceType"], given.get("SubnetId", "")
        if kind not in self.types:
            raise Ec2Error(400, "InvalidParameterValue", f"Invalid value '{kind}' for InstanceType.")
        refusal = self.knobs.refusals.get(kind) or self.knobs.refusals.get(f"{kind}@{subnet}")
        if refusal is not None:
            raise Ec2Error(*REFUSALS[refusal])
        for name in (kind, f"{kind}@{subnet}"):
            used = sum(
                name in (each.machine, f"{each.machine}@{each.inner_address}") for each in self.books.left()
            )
            if used + count > self.knobs.capacity.get(name, used + count):
                raise Ec2Error(*REFUSALS[Refusal.NO_CAPACITY])

    def _enter(self, found: Xml.Element, given: Mapping[str, str]) -> str:
        """Write a new machine and its disks into the books, `inner_address` being its subnet; its id."""
        instance = found.findtext(tag("instanceId"), "")
        now, knobs = self.now() + self._late_s, self.knobs
        tags = our_tags(given)
        times = {"created_at": now, "visible_at": now + knobs.visible_after_s}
        limit_s = self.limit_of(base64.b64decode(given.get("UserData", "")).decode())
        self.books.entries[instance] = Entry(
            id=instance,
            machine=given["InstanceType"],
            inner_address=given.get("SubnetId"),
            running_at=now + knobs.pending_s,
            heard_at=now + knobs.pending_s,
            limit_s=inf if limit_s is None else limit_s,
            silence_s=knobs.silence_s,
            **times,
            **tags,
        )
        if given.get("InstanceInitiatedShutdownBehavior") != "terminate":
            self._stops.add(instance)
        tagged = "volume" in (value for name, value in given.items() if name.endswith(".ResourceType"))
        for item in found.iterfind(path("blockDeviceMapping", "item")):
            volume = item.findtext(path("volumeId"), "")
            ends = item.findtext(path("deleteOnTermination")) == "true"
            self.books.entries[volume] = Entry(
                id=volume,
                kind=ThingKind.DISK,
                disk_of=instance if ends else None,
                **times,
                **(tags if tagged else {}),
            )
        ours = {f"tarmac-{name}": value for name, value in tags.items()}
        for _ in range(knobs.addresses):
            self._create(ThingKind.ADDRESS, ours, **times)
        return instance

    def _describe(self, given: dict[str, str]) -> bytes:
        if self.page_size is not None:
            given = {**given, "MaxResults": str(self.page_size)}
        if given["Action"] == "DescribeInstances":  # moto would render every one that there ever was
            number = sum(name.endswith(".Name") for name in given) + 1
            listed = [each.id for each in self.books if not shown(each, self.now())[1]] or ["none"]
            values = {f"Filter.{number}.Value.{n}": each for n, each in enumerate(listed, 1)}
            given = {**given, f"Filter.{number}.Name": "instance-id", **values}
        return self._rewritten(self._forwarded(given))

    def _rewritten(self, body: bytes) -> bytes:
        """An answer of moto with the state of things as the books have it."""
        now = self.now()
        seen = body, tuple(shown(each, now) for each in self.books)
        if seen not in self._answers:
            self._answers[seen] = rewritten(body, self.books.entries, now)
        return self._answers[seen]

    def _terminate(self, given: dict[str, str]) -> bytes:
        now, knobs = self.now(), self.knobs
        ids = [value for name, value in given.items() if name.startswith("InstanceId.")]
        entries = [self.books.entries.get(each) for each in ids]
        for name, entry in zip(ids, entries, strict=True):
            if entry is None or any(shown(entry, now)[:2]):
                raise Ec2Error(400, "InvalidInstanceID.NotFound", f"The instance ID '{name}' does not exist")
        for entry in entries:
            assert entry is not None
            entry.deletes.append(now)
            if knobs.deletes_ignored > 0:
                knobs.deletes_ignored -= 1
            elif now < entry.leaving_at:
                self._end(entry, now, leaving_s=knobs.leaving_s)
        return answer_of("TerminateInstancesResponse", "<instancesSet/>")

    def _delete(self, given: dict[str, str]) -> bytes:
        """Delete a volume, or release an address."""
        entry = self.books.entries.get(given.get("VolumeId") or given.get("AllocationId") or "")
        if entry is not None:
            entry.deletes.append(self.now())
        body = self._forwarded(given)
        if entry is not None:
            self.books.end(entry, self.now())
        return body

    def _spot_requests(self, given: dict[str, str]) -> bytes:
        items = "".join(
            "<item><spotInstanceRequestId>sir-1</spotInstanceRequestId><state>active</state><status>"
            f"<code>marked-for-termination</code><updateTime>{time_text(each.notice_at - NOTICE_S)}"
            f"</updateTime></status><instanceId>{each.id}</instanceId></item>"
            for each in self.books
            if each.notice_at is not None
        )
        found = f"<spotInstanceRequestSet>{items}</spotInstanceRequestSet>"
        return answer_of("DescribeSpotInstanceRequestsResponse", found)

    def _end_in_moto(self) -> None:
        """Let moto terminate every machine whose end has come."""
        for each in self.books:
            if each.kind is ThingKind.MACHINE and each.gone_at <= self.now() and each.id not in self._ended:
                self._ended.add(each.id)
                self.moto("TerminateInstances", **{"InstanceId.1": each.id})

    def alive(self) -> set[str]:
        """Everything that moto has now, but the disks that a machine uses."""
        found = set()
        with self.lock:
            self._end_in_moto()
            for kind, (name, of) in zip(("Instances", "Volumes", "Addresses"), LISTS, strict=True):
                for item in self.moto(f"Describe{kind}").iterfind(path(name, "item")):
                    gone = item.findtext(f"{tag('instanceState')}/{tag('name')}") == "terminated"
                    if not gone and item.find(f"{tag('attachmentSet')}/{tag('item')}") is None:
                        found.add(item.findtext(tag(of), ""))
        return found

    # --- what happens to machines ------------------------------------------------------------------

    def stranger(self, kind: ThingKind, tags: Mapping[str, str], *, image: str) -> str:
        """Create a thing as another program would."""
        machine = {"ImageId": image, "InstanceType": "m5.large", "MinCount": "1", "MaxCount": "1"}
        with self.lock:
            more = machine if kind is ThingKind.MACHINE else {}
            found = self._create(kind, tags, created_at=self.now(), **more)
            self._stops.add(found)
        return found

    def _create(
        self,
        kind: ThingKind,
        tags: Mapping[str, str | None],
        *,
        created_at: float,
        visible_at: float = -inf,
        **more: str,
    ) -> str:
        """Create one thing in moto and in the books."""
        action, of, usual = _CREATES[kind]
        given = {"TagSpecification.1.ResourceType": _RESOURCES[kind]} if tags else {}
        for number, (name, value) in enumerate(tags.items(), 1):
            given[f"TagSpecification.1.Tag.{number}.Key"] = name
            given[f"TagSpecification.1.Tag.{number}.Value"] = value or ""
        found = self.moto(action, **usual, **more, **given).findtext(path(of), "")
        times = {"created_at": created_at, "visible_at": visible_at}
        self.books.entries[found] = Entry(id=found, kind=kind, **times, **our_tags(given))
        return found

    def shut_down(self, instance: str) -> None:
        """A machine shuts itself down: it is terminated or stopped, as its request said."""
        with self.lock:
            if instance in self._stops:
                self.moto("StopInstances", **{"InstanceId.1": instance})
            else:
                self._end(self.books.entries[instance], self.now())

    def notice(self, instance: str) -> None:
        """Announce that a spot machine ends in two minutes."""
        with self.lock:
            entry = self.books.entries[instance]
            entry.notice_at = self.now() + NOTICE_S
            self._end(entry, entry.notice_at)

    def _end(self, entry: Entry, at: float, *, leaving_s: float = 0.0) -> None:
        self.books.end(entry, at, leaving_s=leaving_s, listed_s=self.knobs.listed_gone_s)


_HANDLERS: Mapping[str, Callable[[Ec2, dict[str, str]], bytes]] = {
    "RunInstances": Ec2._run_instances,
    "DescribeInstances": Ec2._describe,
    "DescribeVolumes": Ec2._describe,
    "DescribeAddresses": Ec2._describe,
    "TerminateInstances": Ec2._terminate,
    "DeleteVolume": Ec2._delete,
    "ReleaseAddress": Ec2._delete,
    "DescribeSpotInstanceRequests": Ec2._spot_requests,
}
_CREATES: Mapping[ThingKind, tuple[str, str, Mapping[str, str]]] = {
    ThingKind.MACHINE: ("RunInstances", "instanceId", {}),
    ThingKind.DISK: ("CreateVolume", "volumeId", {"Size": "8", "AvailabilityZone": f"{REGION}a"}),
    ThingKind.ADDRESS: ("AllocateAddress", "allocationId", {"Domain": "vpc"}),
}
_RESOURCES = {ThingKind.MACHINE: "instance", ThingKind.DISK: "volume", ThingKind.ADDRESS: "elastic-ip"}
