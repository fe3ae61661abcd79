"""N15: where a request comes from, behind proxies or not; and how many requests a sender may send."""

from __future__ import annotations

import pytest

from tarmac.model.errors import TooManyRequests
from tarmac.server.http.origins import network_of, origin_of
from tarmac.server.http.rates import LOGINS_PER_MINUTE, RateKind, Rates

PEER = "192.0.2.9"


@pytest.mark.parametrize(
    ("hops", "forwarded", "origin"),
    [
        (0, ["198.51.100.1"], PEER),
        (1, [], PEER),
        (1, ["198.51.100.1"], "198.51.100.1"),
        (1, ["6.6.6.6, 198.51.100.1"], "198.51.100.1"),
        (2, ["6.6.6.6, 198.51.100.1,10.0.0.1"], "198.51.100.1"),
        (2, ["6.6.6.6", "198.51.100.1", "10.0.0.1"], "198.51.100.1"),
        (2, ["10.0.0.1"], PEER),
        (1, ["198.51.100.1:4711"], "198.51.100.1"),
        (1, ["[2001:db8::1]:4711"], "2001:db8::1"),
        (1, ["2001:db8::1"], "2001:db8::1"),
        (1, ["::ffff:198.51.100.1"], "198.51.100.1"),
        (1, ["unknown"], PEER),
        (1, ["198.51.100.1, "], PEER),
    ],
)
def test_the_address_is_counted_from_the_right(hops: int, forwarded: list[str], origin: str) -> None:
    """What a client adds to the header is further left than what the trusted proxies add."""
    headers = [(b"x-forwarded-for", value.encode()) for value in forwarded]
    assert origin_of({"client": (PEER, 4711), "headers": headers}, hops) == origin


def test_a_request_over_a_unix_socket_comes_from_no_address() -> None:
    headers = [(b"x-forwarded-for", b"198.51.100.1")]
    assert origin_of({"client": None, "headers": headers}, 1) == ""


def test_one_sender_has_a_whole_network_of_ipv6() -> None:
    assert network_of("2001:db8::1") == network_of("2001:db8::2:3") == "2001:db8::/64"
    assert network_of("2001:db8:0:1::1") != network_of("2001:db8::1")
    assert network_of("fe80::1%eth0") == "fe80::/64"
    assert network_of(PEER) == PEER


@pytest.mark.parametrize("kind", list(RateKind))
def test_a_sender_has_its_share_of_a_minute(kind: RateKind) -> None:
    rates, amount = Rates(requests_per_minute=5), {RateKind.REQUESTS: 5, **LOGINS_PER_MINUTE}[kind]
    for _ in range(amount):
        rates.check(kind, "ada")
    with pytest.raises(TooManyRequests, match=f"ada: {amount} {kind} in a minute") as refused:
        rates.check(kind, "ada")
    assert 1 <= refused.value.retry_after_s <= 60
    assert (refused.value.http_status, refused.value.exit_code) == (429, 1)
    assert refused.value.hint == f"try again in {refused.value.retry_after_s} s"
    rates.check(kind, "bo")
