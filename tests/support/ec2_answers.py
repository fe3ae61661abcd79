"""The answers of EC2: errors, and the lists of moto as the books have their things. Called by `ec2_proxy`."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from xml.etree import ElementTree as Xml

from fake_provider import Entry
from tarmac.model.burst.provider import Refusal, ThingKind, ThingState

NAMESPACE = "http://ec2.amazonaws.com/doc/2016-11-15"

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


LISTS = (("instancesSet", "instanceId"), ("volumeSet", "volumeId"), ("addressesSet", "allocationId"))


def answer_of(name: str, inner: str) -> bytes:
    return f'<{name} xmlns="{NAMESPACE}">{inner}</{name}>'.encode()


def tag(name: str) -> str:
    return f"{{*}}{name}"


def path(*names: str) -> str:
    """The path to elements anywhere below another."""
    return ".//" + "/".join(tag(each) for each in names)


def text_of(root: Xml.Element) -> bytes:
    Xml.register_namespace("", NAMESPACE)
    return Xml.tostring(root)


def time_text(at: float) -> str:
    return datetime.fromtimestamp(at, UTC).isoformat()


def shown(entry: Entry, now: float) -> tuple[bool, bool, ThingState]:
    """Whether a list lacks a thing yet, or lacks it again, and its state."""
    forgotten = entry.gone_at <= now >= entry.forgotten_at
    return now < max(entry.created_at, entry.visible_at), forgotten, entry.seen(now).state


def set_state(item: Xml.Element, state: ThingState) -> None:
    """Give an instance this state; one that is pending has no public address yet."""
    found = item.find(tag("instanceState"))
    assert found is not None
    for name, value in zip(("code", "name"), _STATES[state], strict=True):
        each = found.find(tag(name))
        assert each is not None
        each.text = value
    if state is ThingState.PENDING:
        for name in ("ipAddress", "networkInterfaceSet"):
            for each in item.findall(tag(name)):
                item.remove(each)


def rewritten(body: bytes, entries: Mapping[str, Entry], now: float) -> bytes:
    """An answer of moto with the state of things as the books have it."""
    root = Xml.fromstring(body)
    for name, of in LISTS:
        for parent in root.findall(path(name)):
            for item in list(parent):
                entry = entries.get(item.findtext(tag(of), ""))
                if entry is None:
                    continue
                hidden, forgotten, state = shown(entry, now)
                if (hidden or forgotten) and not root.tag.endswith("RunInstancesResponse"):
                    parent.remove(item)
                elif entry.kind is ThingKind.MACHINE:
                    set_state(item, state)
                for time in (*item.findall(tag("launchTime")), *item.findall(tag("createTime"))):
                    time.text = time_text(entry.created_at)
    for parent in root.findall(path("reservationSet")):
        for item in list(parent):
            if len(item.find(tag("instancesSet")) or ()) == 0:
                parent.remove(item)
    return text_of(root)


def our_tags(given: Mapping[str, str]) -> dict[str, str | None]:
    """Our tags in the first specification of a request."""
    start = "TagSpecification.1.Tag."
    found = {
        value: given[name.removesuffix("Key") + "Value"]
        for name, value in given.items()
        if name.startswith(start) and name.endswith(".Key")
    }
    return {name: found.get(f"tarmac-{name}") for name in ("owner", "request", "run")}
