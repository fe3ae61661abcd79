"""Receivers of messages: which of them a server allows, and how they are shown (N18)."""

from __future__ import annotations

import pytest

from tarmac.model.errors import InvalidInput
from tarmac.model.notification import Channel, Receiver
from tarmac.server.notifying.sending import Sender

MAIL = Receiver(channel=Channel.EMAIL, address="ann@lab.example")
PRIVATE = ["127.0.0.1", "127.1", "2130706433", "localhost:8080", "[::1]", "[::ffff:127.0.0.1]", "0.0.0.0"]


@pytest.mark.parametrize("host", [*PRIVATE, "169.254.169.254", "ann:key@127.0.0.1"])
def test_n18_a_receiver_on_this_machine_is_refused_when_it_is_set(host: str) -> None:
    """Where the settings forbid private addresses."""
    strict = Sender(mail=None, secrets=dict, private_addresses=False)
    hook = Receiver(channel=Channel.WEBHOOK, address=f"http://{host}/hook")
    with pytest.raises(InvalidInput, match=r"notifications\.private_addresses forbids it"):
        strict.check(hook)
    Sender(mail=None, secrets=dict, private_addresses=True).check(hook)


@pytest.mark.parametrize("host", ["192.0.2.1", "no-such-host.invalid", "x" * 70 + ".example"])
def test_n18_a_receiver_elsewhere_is_allowed_also_if_its_host_is_unknown_now(host: str) -> None:
    strict = Sender(mail=None, secrets=dict, private_addresses=False)
    strict.check(Receiver(channel=Channel.WEBHOOK, address=f"https://{host}/hook"))
    strict.check(Receiver(channel=Channel.SLACK, address="hook", secret=True))
    with pytest.raises(InvalidInput, match="this server has no mail server"):
        strict.check(MAIL)


@pytest.mark.parametrize("rest", ["", "/path-key", "?key=k", "#key"])
def test_n18_a_url_is_shown_as_its_host_alone(rest: str) -> None:
    hook = Receiver(channel=Channel.SLACK, address=f"https://ann:key@lab.example:8443{rest}")
    assert str(hook) == "slack at lab.example:8443"
