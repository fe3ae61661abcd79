"""EC2 as moto serves it, with what moto leaves out: the proxy before it, and its own books.

The same token twice is one request, and another request with it is refused; types, capacity and quotas are
limited; new things appear late, machines are pending and shut down for a time; spot machines are taken back;
calls are throttled, answers slow or lost. Times are those of the test's clock. `ec2_server` serves it.
"""

from __future__ import annotations

import http.client
import threading
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from urllib.parse import urlencode
from xml.etree import ElementTree as Xml

from fake_provider import Books, Entry, Knobs
from tarmac.model.burst.provider import Refusal, ThingKind, ThingState

NAMESPACE = "http://ec2.amazonaws.com/doc/2016-11-15"
VERSION = "2016-11-15"
REGION = "eu-north-1"
KEY = "AKIATARMACTEST"
NOTICE_S = 120.0
LISTED_S = 3600.0
"""EC2 lists a terminated machine for about an hour."""


REFUSALS: Mapping[Refusal, tuple[int, str, str]] = {
    Refusal.NO_CAPACITY: (
        500,
        "InsufficientInstanceCapacity",
        "We currently do not have sufficient capacity",
    ),
    Refusal.QUOTA: (
        400,
        "VcpuLimitExceeded",
        "You have requested more vCPU capacity than your current limit",
    ),
    Refusal.UNKNOWN_SHAPE: (400, "InvalidParameterValue", "Invalid value 'x' for InstanceType."),
    Refusal.DENIED: (403, "UnauthorizedOperation", "You are not authorized to perform this operation."),
    Refusal.INVALID: (400, "InvalidGroup.NotFound", "The security group 'sg-0' does not exist"),
}
_STATES = {
    ThingState.PENDING: ("0", "pending"),
    ThingState.RUNNING: ("16", "running"),
    ThingState.LEAVING: ("32", "shutting-down"),
    ThingState.GONE: ("48", "terminated"),
}


class Ec2Error(Exception):
    """An error of EC2, with its HTTP status and code."""

    def __init__(self, status: int, code: str, message: str) -> None:
        super().__init__(message)
        self.status, self.code, self.message = status, code, message


class LostAnswer(Exception):
    """The connection breaks instead of an answer."""


@dataclass(kw_only=True)
class Ec2Fault:
    """One call that fails: with an error, or without an answer. `after`: it has had its effect."""

    error: Ec2Error | None = None
    after: bool = False
    slow: threading.Event | None = None


@dataclass
class Ec2:
    """The account. `types` are all known ones; `capacity` of `Knobs` is by type, or by TYPE@SUBNET."""

    moto_port: int
    now: Callable[[], float]
    knobs: Knobs = field(default_factory=lambda: Knobs(listed_gone_s=LISTED_S))
    types: set[str] = field(default_factory=lambda: {"m5.large", "p5.48xlarge"})
    page_size: int | None = None

    def __post_init__(self) -> None:
        self.books = Books(self.now)
        self.faults: dict[str, deque[Ec2Fault]] = {}
        self.calls: list[tuple[str, dict[str, str]]] = []
        self.lock = threading.RLock()
        self._tokens: dict[str, tuple[dict[str, str], list[str], bytes]] = {}
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
            fault = faults.popleft() if faults else None
            if fault is None or fault.after:
                self._end_in_moto()
                handler = _HANDLERS.get(action, Ec2._forwarded)
                answer = handler(self, given)
        if fault is None:
            return answer
        if fault.error is not None:
            raise fault.error
        if fault.slow is not None:
            fault.slow.wait(60)
        raise LostAnswer

    def _check(self, key: str) -> None:
        now, knobs = self.now(), self.knobs
        if knobs.down is not None and knobs.down[0] <= now < knobs.down[1]:
            raise Ec2Error(503, "Unavailable", "The server is overloaded and can't handle the request.")
        if key != KEY or knobs.denied:
            raise Ec2Error(401, "AuthFailure", "AWS was not able to validate the provided access credentials")

    def _forwarded(self, given: Mapping[str, str]) -> bytes:
        scope = f"{KEY}/20260101/{REGION}/ec2/aws4_request"
        headers = {
            "Authorization": f"AWS4-HMAC-SHA256 Credential={scope}, SignedHeaders=host, Signature=0",
            "Content-Type": "application/x-www-form-urlencoded; charset=utf-8",
        }
        connection = http.client.HTTPConnection("127.0.0.1", self.moto_port, timeout=60)
        try:
            connection.request("POST", "/", urlencode({**given, "Version": VERSION}), headers)
            response = connection.getresponse()
            body = response.read()
        finally:
            connection.close()
        if response.status != 200:
            found = Xml.fromstring(body)
            raise Ec2Error(
                response.status, *(found.findtext(_path(name), "") for name in ("Code", "Message"))
            )
        return body

    def moto(self, action: str, **given: str) -> Xml.Element:
        """The answer of moto itself."""
        return Xml.fromstring(self._forwarded({"Action": action, **given}))

    # --- machines ----------------------------------------------------------------------------------

    def _run_instances(self, given: dict[str, str]) -> bytes:
        if given.get("DryRun") == "true":
            return self._forwarded(given)
        token = given.get("ClientToken", "")
        known = self._tokens.get(token)
        if known is not None:
            if known[0] != given:
                raise Ec2Error(
                    400, "IdempotentParameterMismatch", "Arguments on this idempotent request differ"
                )
            return self._rewritten(known[2])
        self._check_stock(given, int(given["MinCount"]))
        body = self._forwarded(given)
        found = Xml.fromstring(body).findall(_path("instancesSet", "item", "instanceId"))
        ids = [each.text or "" for each in found]
        for each in ids:
            self._enter(each, given)
        if token:
            self._tokens[token] = dict(given), ids, body
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

    def _enter(self, instance: str, given: Mapping[str, str]) -> None:
        """Write a new machine and its disks into the books, `inner_address` being its subnet."""
        now, knobs = self.now(), self.knobs
        tags = _tags_of(given)
        times = {"created_at": now, "visible_at": now + knobs.visible_after_s}
        self.books.entries[instance] = Entry(
            id=instance,
            machine=given["InstanceType"],
            inner_address=given.get("SubnetId"),
            running_at=now + knobs.pending_s,
            **times,
            **tags,
        )
        if given.get("InstanceInitiatedShutdownBehavior") != "terminate":
            self._stops.add(instance)
        tagged = "volume" in (value for name, value in given.items() if name.endswith(".ResourceType"))
        found = self.moto("DescribeInstances", **{"InstanceId.1": instance})
        for item in found.iterfind(_path("blockDeviceMapping", "item")):
            volume = item.findtext(_path("volumeId"), "")
            ends = item.findtext(_path("deleteOnTermination")) == "true"
            self.books.entries[volume] = Entry(
                id=volume,
                kind=ThingKind.DISK,
                disk_of=instance if ends else None,
                **times,
                **(tags if tagged else {}),
            )

    def _describe(self, given: dict[str, str]) -> bytes:
        if self.page_size is not None:
            given = {**given, "MaxResults": str(self.page_size)}
        return self._rewritten(self._forwarded(given))

    def _rewritten(self, body: bytes) -> bytes:
        """An answer of moto with the state of things as the books have it."""
        root, now = Xml.fromstring(body), self.now()
        for name, of in (("instancesSet", "instanceId"), ("volumeSet", "volumeId")):
            for parent in root.findall(_path(name)):
                for item in list(parent):
                    entry = self.books.entries.get(item.findtext(_tag(of), ""))
                    if entry is None:
                        continue
                    hidden = now < entry.visible_at and not root.tag.endswith("RunInstancesResponse")
                    if hidden or entry.gone_at <= now >= entry.forgotten_at:
                        parent.remove(item)
                    elif entry.kind is ThingKind.MACHINE:
                        _state(item, entry.seen(now).state)
        for parent in root.findall(_path("reservationSet")):
            for item in list(parent):
                if len(item.find(_tag("instancesSet")) or ()) == 0:
                    parent.remove(item)
        return _text(root)

    def _terminate(self, given: dict[str, str]) -> bytes:
        now, knobs = self.now(), self.knobs
        ids = [value for name, value in given.items() if name.startswith("InstanceId.")]
        entries = [self.books.entries.get(each) for each in ids]
        for name, entry in zip(ids, entries, strict=True):
            if entry is None or now < entry.visible_at or entry.gone_at <= now >= entry.forgotten_at:
                raise Ec2Error(400, "InvalidInstanceID.NotFound", f"The instance ID '{name}' does not exist")
        for entry in entries:
            assert entry is not None
            entry.deletes.append(now)
            if knobs.deletes_ignored > 0:
                knobs.deletes_ignored -= 1
            elif now < entry.leaving_at:
                self.books.end(entry, now, leaving_s=knobs.leaving_s, listed_s=knobs.listed_gone_s)
        return _answer("TerminateInstancesResponse", "<instancesSet/>")

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
            "<code>marked-for-termination</code><updateTime>"
            f"{datetime.fromtimestamp(each.notice_at - NOTICE_S, UTC).isoformat()}"
            f"</updateTime></status><instanceId>{each.id}</instanceId></item>"
            for each in self.books
            if each.notice_at is not None
        )
        found = f"<spotInstanceRequestSet>{items}</spotInstanceRequestSet>"
        return _answer("DescribeSpotInstanceRequestsResponse", found)

    def _end_in_moto(self) -> None:
        """Let moto terminate every machine whose end has come."""
        for each in self.books:
            if each.kind is ThingKind.MACHINE and each.gone_at <= self.now() and each.id not in self._ended:
                self._ended.add(each.id)
                self.moto("TerminateInstances", **{"InstanceId.1": each.id})

    # --- what happens to machines ------------------------------------------------------------------

    def stranger(self, kind: ThingKind, tags: Mapping[str, str], *, image: str) -> str:
        """Create a thing as another program would."""
        action, of, more = {
            ThingKind.MACHINE: (
                "RunInstances",
                "instanceId",
                {"ImageId": image, "InstanceType": "m5.large", "MinCount": "1", "MaxCount": "1"},
            ),
            ThingKind.DISK: ("CreateVolume", "volumeId", {"Size": "8", "AvailabilityZone": f"{REGION}a"}),
            ThingKind.ADDRESS: ("AllocateAddress", "allocationId", {"Domain": "vpc"}),
        }[kind]
        given = {"TagSpecification.1.ResourceType": _RESOURCES[kind]} if tags else {}
        for number, (name, value) in enumerate(tags.items(), 1):
            given[f"TagSpecification.1.Tag.{number}.Key"] = name
            given[f"TagSpecification.1.Tag.{number}.Value"] = value
        with self.lock:
            found = self.moto(action, **more, **given).findtext(_path(of), "")
            self.books.entries[found] = Entry(id=found, kind=kind, created_at=self.now(), **_tags_of(given))
            self._stops.add(found)
        return found

    def shut_down(self, instance: str) -> None:
        """A machine shuts itself down: it is terminated or stopped, as its request said."""
        with self.lock:
            if instance in self._stops:
                self.moto("StopInstances", **{"InstanceId.1": instance})
            else:
                entry = self.books.entries[instance]
                self.books.end(entry, self.now(), listed_s=self.knobs.listed_gone_s)

    def notice(self, instance: str) -> None:
        """Announce that a spot machine ends in two minutes."""
        with self.lock:
            entry = self.books.entries[instance]
            entry.notice_at = self.now() + NOTICE_S
            self.books.end(entry, entry.notice_at, listed_s=self.knobs.listed_gone_s)


_HANDLERS: Mapping[str, Callable[[Ec2, dict[str, str]], bytes]] = {
    "RunInstances": Ec2._run_instances,
    "DescribeInstances": Ec2._describe,
    "DescribeVolumes": Ec2._describe,
    "TerminateInstances": Ec2._terminate,
    "DeleteVolume": Ec2._delete,
    "ReleaseAddress": Ec2._delete,
    "DescribeSpotInstanceRequests": Ec2._spot_requests,
}
_RESOURCES = {ThingKind.MACHINE: "instance", ThingKind.DISK: "volume", ThingKind.ADDRESS: "elastic-ip"}


def _answer(name: str, inner: str) -> bytes:
    return f'<{name} xmlns="{NAMESPACE}">{inner}</{name}>'.encode()


def _tag(name: str) -> str:
    return f"{{*}}{name}"


def _path(*names: str) -> str:
    """The path to elements anywhere below another."""
    return ".//" + "/".join(_tag(each) for each in names)


def _text(root: Xml.Element) -> bytes:
    Xml.register_namespace("", NAMESPACE)
    return Xml.tostring(root)


def _state(item: Xml.Element, state: ThingState) -> None:
    """Give an instance this state; one that is pending has no public address yet."""
    found = item.find(_tag("instanceState"))
    assert found is not None
    for name, value in zip(("code", "name"), _STATES[state], strict=True):
        each = found.find(_tag(name))
        assert each is not None
        each.text = value
    if state is ThingState.PENDING:
        for name in ("ipAddress", "networkInterfaceSet"):
            for each in item.findall(_tag(name)):
                item.remove(each)


def _tags_of(given: Mapping[str, str]) -> dict[str, str | None]:
    """Our tags in the first specification of a request."""
    start = "TagSpecification.1.Tag."
    found = {
        value: given[name.removesuffix("Key") + "Value"]
        for name, value in given.items()
        if name.startswith(start) and name.endswith(".Key")
    }
    return {name: found.get(f"tarmac-{name}") for name in ("owner", "request", "run")}
