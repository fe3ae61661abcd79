"""Reads `notify`: the receivers of messages about a run. Called by `reader` and `overrides`.

An address alone usually suffices: `ann@lab.example` is mail, `https://...` a webhook, and a URL of Slack
selects Slack's form. `from_address` also reads the addresses in a server's settings.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable
from urllib.parse import urlsplit

from tarmac.dialects import quantities
from tarmac.dialects.kinds import Kind, Misfit, choice, one_of
from tarmac.dialects.located import Items, Scalar
from tarmac.dialects.secrets import reference_in
from tarmac.dialects.section import Fields, Section, Value, words_for
from tarmac.model.notification import DEFAULT_WAIT_S, ENDED, Channel, Occasion, Receiver, Subscription
from tarmac.model.record import replace

SUBSCRIPTION = Fields(
    known=frozenset({"to", "as", "on", "after"}),
    synonyms=words_for(
        to="address url email webhook slack mail_user", on="events when mail_type", after="delay"
    )
    | {"as": "as"},
)

MOST_SUBSCRIPTIONS = 20
LONGEST_ADDRESS = 2000
SLACK_SITE = "hooks.slack.com"

FORMS = "an address of mail, an http(s) URL, or ${{ secrets.NAME }} with 'as: webhook' or 'as: slack',"
LIST = f"a list; each item is {FORMS.rstrip(',')}, or a mapping with 'to'"
OCCASIONS = "what to tell of: started, waiting, completed, failed, stopped, or ended for the last three"

_ENDED = "ended"
_WORDS = (*(str(occasion) for occasion in Occasion), _ENDED)


def read_notify(run: Section, default: tuple[Subscription, ...] = ()) -> tuple[Subscription, ...]:
    """One subscription or a list of them; `default` if the field is not given."""
    value = run.get("notify")
    if value is None:
        return default
    items = list(value.items(LIST)) if isinstance(value.node, Items) else [value]
    found = [subscription for item in items if (subscription := _subscription(item)) is not None]
    if len(found) > MOST_SUBSCRIPTIONS:
        value.refuse(f"{len(found)} receivers; at most {MOST_SUBSCRIPTIONS} are allowed")
    return tuple(found)


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


def _subscription(item: Value) -> Subscription | None:
    if isinstance(item.node, Scalar):
        receiver = item.read(ADDRESS, None)
        if receiver is not None and receiver.secret:
            item.refuse("what is in the secret?", "{to: ${{ secrets.NAME }}, as: slack}, or as: webhook")
        return None if receiver is None else Subscription(receiver=receiver)
    section = item.section(SUBSCRIPTION)
    if section is None:
        return None
    if "to" not in section:
        section.missing("to", "write whom to tell: to: ann@lab.example")
        return None
    receiver = section.read("to", ADDRESS, None)
    channel = section.read("as", choice(Channel), None)
    on = _occasions(section)
    if section.get("after") is not None and on is not None and Occasion.WAITING not in on:
        section.refuse("'after' says how long a wait is told of", "add 'waiting' to 'on', or take it out")
    if receiver is None or on is None:
        return None
    if problem := _misfit(receiver, channel):
        section.refuse(*problem)
        return None
    waiting_s = section.read("after", quantities.duration_s(), DEFAULT_WAIT_S)
    return Subscription(
        receiver=replace(receiver, channel=channel or receiver.channel), on=on, waiting_s=waiting_s
    )


def _occasions(section: Section) -> tuple[Occasion, ...] | None:
    """The occasions; None if a word is unknown, which the reader refuses together with all others."""
    value = section.get("on")
    if value is None:
        return ENDED
    found = list(section.read_list("on", OCCASION, f"a list of {OCCASIONS}", or_one=True))
    given = len(value.node.items) if isinstance(value.node, Items) else 1
    return None if len(found) < given else read_occasions(found) or ENDED


def _misfit(receiver: Receiver, channel: Channel | None) -> tuple[str, str] | None:
    """The reason why messages cannot be sent to the receiver in this form, with a hint."""
    mail = receiver.channel is Channel.EMAIL
    if receiver.secret and channel in (None, Channel.EMAIL):
        return "a secret holds the URL of a webhook or of Slack", "say which: as: slack, or as: webhook"
    if channel is not None and not receiver.secret and (channel is Channel.EMAIL) is not mail:
        return f"'to' is no address for {channel}", "take 'as' out: the address says it"
    return None


def _address(scalar: Scalar) -> Receiver:
    name = reference_in(scalar.text)
    if name is not None:
        return Receiver(channel=Channel.WEBHOOK, address=name, secret=True)
    receiver = from_address(scalar.text)
    if receiver is None:
        raise Misfit()
    return receiver


ADDRESS: Kind[Receiver] = Kind(FORMS, _address)
OCCASION = dataclasses.replace(one_of(_WORDS), description=f"one of {OCCASIONS.partition(': ')[2]}")
