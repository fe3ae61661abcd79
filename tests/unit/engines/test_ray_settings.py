"""The settings of a Ray: what is allowed, and what is said of the rest."""

from __future__ import annotations

from typing import Any

import pytest

from tarmac.engines.ray.settings import read_settings
from tarmac.model.errors import InvalidInput

ADDRESS = {"address": "10.0.0.1:6379"}


def test_an_address_is_enough() -> None:
    settings = read_settings(ADDRESS)
    assert (settings.address, str(settings.directory)) == ("10.0.0.1:6379", "/var/tmp/tarmac")
    assert (settings.slots, settings.cpus, settings.lease_s) == (None, None, 600.0)


def test_numbers_may_be_texts_as_the_command_line_has_them() -> None:
    settings = read_settings({**ADDRESS, "slots": "6", "cpus": "1.5", "lease": "2h"})
    assert (settings.slots, settings.cpus, settings.lease_s) == (6, 1.5, 7200.0)


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({}, "needs the setting 'address'"),
        ({"address": "10.0.0.1"}, "'address' is '10.0.0.1'"),
        ({"address": "-oProxyCommand=x:1"}, "'address' is"),
        ({"address": "10.0.0.1:70000"}, "a port is a number up to 65535"),
        ({"directory": "tarmac"}, "'directory' is 'tarmac'"),
        ({"directory": "/a/../b"}, "without '..'"),
        ({"python": "python3 -c x"}, "'python' is"),
        ({"ssh": "-oProxyCommand=x"}, "'ssh' is"),
        ({"slots": 0}, "'slots' is 0"),
        ({"slots": "2.5"}, "'slots' is '2.5'"),
        ({"slots": True}, "'slots' is True"),
        ({"cpus": "many"}, "'cpus' is 'many'"),
        ({"lease": "5s"}, "'lease' is '5s'"),
        ({"slot": 1}, "no setting 'slot'"),
    ],
)
def test_a_mistake_is_named(given: dict[str, Any], told: str) -> None:
    settings = given if not given or "address" in given else {**ADDRESS, **given}
    with pytest.raises(InvalidInput) as refused:
        read_settings(settings)
    assert told in refused.value.message


def test_the_nearest_setting_is_said() -> None:
    with pytest.raises(InvalidInput) as refused:
        read_settings({**ADDRESS, "adress": "x"})
    assert refused.value.hint == "did you mean address?"


def test_nodes_are_reached_through_ssh_only_where_there_is_one() -> None:
    known = {"address": "10.0.0.1:6379", "ssh": "head"}
    assert not read_settings(known).tunnel
    assert read_settings({**known, "tunnel": "true"}).tunnel
    assert read_settings({**known, "tunnel": True}).tunnel
    with pytest.raises(InvalidInput, match="write true or false"):
        read_settings({**known, "tunnel": "perhaps"})
    with pytest.raises(InvalidInput, match="needs the setting 'ssh'"):
        read_settings({"address": "10.0.0.1:6379", "tunnel": True})
