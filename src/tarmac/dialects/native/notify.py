"""The field `notify`: the receivers of messages about a run.

An address alone usually suffices: `ann@lab.example` is mail, `https://...` a webhook, and a URL of Slack
selects Slack's form. `from_address` also reads the addresses in a server's settings, `named_receiver`
those of people's own subscriptions.
"""

import dataclasses
from collections.abc import Iterable, Mapping
from typing import Any
from urllib.parse import urlsplit

from tarmac.dialects import quantities
from tarmac.dialects.kinds import Kind, Misfit, choice, one_of
from tarmac.dialects.located import Items, Scalar
from tarmac.dialects.schema import MISSING, Custom, Field, read_value, record, tuple_of, write_record
from tarmac.dialects.secrets import reference_in
from tarmac.dialects.section import Section, Value
from tarmac.model.codec import replace
from tarmac.model.errors import InvalidInput
from tarmac.model.notification import ENDED, Channel, Occasion, Receiver, Subscription

MOST_SUBSCRIPTIONS = 20
LONGEST_ADDRESS = 2000
SLACK_SITE = "hooks.slack.com"

FORMS = "an address of mail, an http(s) URL, or ${{ secrets.NAME }} with 'as: webhook' or 'as: slack',"
LIST = f"a list; each item is {FORMS.rstrip(',')}, or a mapping with 'to'"
_NAMED = "started, waiting, idle, credits, completed, failed, stopped"
OCCASIONS = f"what to tell of: {_NAMED}, or ended for the last three"

_ENDED = "ended"
_WORDS = (*(str(occasion) for occasion in Occasion), _ENDED)


def read_occasions(texts: Iterable[str]) -> tuple[Occasion, ...]:
    """The occasions that these words name, in order, each once. Raises ValueError for an unknown word."""
    found = [occasion for text in texts for occasion in (ENDED if text == _ENDED else (Occasion(text),))]
    return tuple(dict.fromkeys(found))


def from_address(text: str) -> Receiver | None:
    """The receiver that an address alone describes; None if it describes none."""
    if not text.isprintable() or len(text) > LONGEST_ADDRESS or any(mark in text for mark in " \t<>\"'"):
        return None
    if "://" not in text:
        name, at, domain = text.rpartition("@")
        mail = at and name and domain and "," not in text and "@" not in name and not text.startswith("-")
        return Receiver(channel=Channel.EMAIL, address=text) if mail else None
    try:
        url = urlsplit(text)
        plain = url.scheme in ("http", "https") and url.hostname and (url.port is None or url.port > 0)
    except ValueError:
        return None
    if not plain:
        return None
    return Receiver(channel=Channel.SLACK if url.hostname == SLACK_SITE else Channel.WEBHOOK, address=text)


def named_receiver(text: str, channel: Channel | None) -> Receiver:
    """The receiver that a text names, as in a run file, for this form of messages. Raises InvalidInput."""
    receiver = _receiver(text)
    if receiver is None:
        raise InvalidInput(f"{FORMS} is expected, not {text!r:.80}")
    if problem := _misfit(receiver, channel):
        raise InvalidInput(problem[0], hint=problem[1])
    return replace(receiver, channel=channel or receiver.channel)


def _receiver(text: str) -> Receiver | None:
    name = reference_in(text)
    if name is None:
        return from_address(text)
    return Receiver(channel=Channel.WEBHOOK, address=name, secret=True)


def _subscription(item: Value) -> Any:
    """A subscription; MISSING if it is invalid, with a problem reported."""
    if isinstance(item.node, Scalar):
        receiver = item.read(ADDRESS, None)
        if receiver is not None and receiver.secret:
            item.refuse("what is in the secret?", "{to: ${{ secrets.NAME }}, as: slack}, or as: webhook")
        return MISSING if receiver is None else Subscription(receiver=receiver)
    return read_value(item, SUBSCRIPTION)


def _check(section: Section, found: Mapping[str, Any]) -> None:
    on = found.get("on", () if "on" in section else ENDED)
    if section.get("after") is not None and on and Occasion.WAITING not in on:
        section.refuse("'after' says how long a wait is told of", "add 'waiting' to 'on', or take it out")
    if "to" in found and (problem := _misfit(found["to"], found.get("as"))):
        section.refuse(*problem)


def _subscribed(receiver: Receiver, channel: Channel | None = None, **more: Any) -> Subscription:
    return Subscription(receiver=replace(receiver, channel=channel or receiver.channel), **more)


def _occasions(value: Value) -> Any:
    """The occasions; MISSING if a word is unknown."""
    found = value.read_list(OCCASION, f"a list of {OCCASIONS}", or_one=True)
    given = len(value.node.items) if isinstance(value.node, Items) else 1
    return MISSING if len(found) < given else read_occasions(found) or ENDED


def _written(each: Subscription) -> dict[str, Any]:
    receiver = each.receiver
    to = f"${{{{ secrets.{receiver.address} }}}}" if receiver.secret else receiver.address
    form = {} if receiver.channel is Channel.EMAIL else {"as": receiver.channel.value}
    return {"to": to, **form, **write_record(each, _WHEN)}


def _misfit(receiver: Receiver, channel: Channel | None) -> tuple[str, str] | None:
    """The reason why messages cannot be sent to the receiver in this form, with a hint."""
    mail = receiver.channel is Channel.EMAIL
    if receiver.secret and channel in (None, Channel.EMAIL):
        return "a secret holds the URL of a webhook or of Slack", "say which: as: slack, or as: webhook"
    if channel is not None and not receiver.secret and (channel is Channel.EMAIL) is not mail:
        return f"'to' is no address for {channel}", "take 'as' out: the address says it"
    return None


def _address(scalar: Scalar) -> Receiver:
    receiver = _receiver(scalar.text)
    if receiver is None:
        raise Misfit()
    return receiver


ADDRESS: Kind[Receiver] = Kind(FORMS, _address)
OCCASION = dataclasses.replace(one_of(_WORDS), description=f"one of {OCCASIONS.partition(': ')[2]}")
_WHEN = record(
    {
        "on": Field(Custom(_occasions), words="events when mail_type"),
        "after": Field(quantities.duration_s(), sets="waiting_s", words="delay"),
    }
)
SUBSCRIPTION = record(
    {
        "to": Field(
            ADDRESS,
            sets="receiver",
            words="address url email webhook slack mail_user",
            required="write whom to tell: to: ann@lab.example",
        ),
        "as": Field(choice(Channel), sets="channel"),
        **_WHEN.fields,
    },
    _check,
    make=_subscribed,
)
NOTIFY = tuple_of(
    Custom(_subscription, _written),
    LIST,
    most=(MOST_SUBSCRIPTIONS, "receivers"),
    or_one=True,
    or_mapping=True,
)
