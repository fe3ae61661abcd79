"""The settings of an EC2 account, checked without access to it. Called by `kind`."""

import re
from collections.abc import Mapping
from dataclasses import dataclass

from tarmac.model import setting_values as values
from tarmac.model.errors import InvalidInput

FIELDS = ("region", "image", "subnets", "security_groups", "disk_gb", "profile", "url", "timeout")
CREDENTIALS = ((), ("access_key", "secret_key"), ("access_key", "secret_key", "session_token"))
"""The sets of credentials. Without any, boto3 finds its own: variables, files, or the role of the machine."""

MOST_DISK_GB = 16_384
DEFAULT_TIMEOUT_S = 60.0

_REGION = re.compile(r"[a-z0-9-]{1,50}")
_IMAGE = re.compile(r"ami-[0-9a-f]{1,40}")
_SUBNETS = re.compile(r"subnet-[0-9a-f]{1,40}(,subnet-[0-9a-f]{1,40}){0,15}")
_GROUPS = re.compile(r"sg-[0-9a-f]{1,40}(,sg-[0-9a-f]{1,40}){0,15}")
_PROFILE = re.compile(r"[A-Za-z0-9+=,.@_-]{1,128}")
_URL = re.compile(r"https?://[A-Za-z0-9.-]+(:[0-9]{1,5})?(/[A-Za-z0-9._~/-]*)?")


@dataclass(frozen=True, slots=True, kw_only=True)
class Ec2Settings:
    """The region, the image of new machines, and one subnet for each zone, tried in this order.

    `profile` is the instance profile of new machines, `disk_gb` the size of their first disk (0: that of the
    image). `url` is the address of another cloud with this interface.
    """

    region: str
    image: str
    subnets: tuple[str, ...]
    security_groups: tuple[str, ...] = ()
    disk_gb: int = 0
    profile: str | None = None
    url: str | None = None
    timeout_s: float = DEFAULT_TIMEOUT_S


def read_settings(settings: Mapping[str, str]) -> Ec2Settings:
    """The settings of a record; raises InvalidInput with the first mistake."""
    values.refuse_unknown(settings, FIELDS, "the provider ec2")
    groups = values.text_of(settings, "security_groups", _GROUPS, "ids such as sg-1234,sg-5678")
    return Ec2Settings(
        region=_needed(settings, "region", _REGION, "a region such as eu-north-1"),
        image=_needed(settings, "image", _IMAGE, "the id of an image such as ami-1234"),
        subnets=tuple(_needed(settings, "subnets", _SUBNETS, "ids such as subnet-12,subnet-34").split(",")),
        security_groups=tuple(groups.split(",")) if groups else (),
        disk_gb=values.count_of(settings, "disk_gb", most=MOST_DISK_GB),
        profile=values.text_of(settings, "profile", _PROFILE, "the name of an instance profile"),
        url=values.text_of(settings, "url", _URL, "a URL such as https://ec2.example.org"),
        timeout_s=values.seconds_of(settings, "timeout", "for one answer, such as 60s") or DEFAULT_TIMEOUT_S,
    )


def check_credentials(credentials: Mapping[str, str]) -> None:
    """Raise InvalidInput unless the credentials are those of one identity, or none."""
    if not any(set(credentials) == set(allowed) for allowed in CREDENTIALS):
        raise InvalidInput(
            f"the provider ec2 has the credentials {', '.join(sorted(credentials))}",
            hint="access_key and secret_key, also session_token; or none, for those of the server's machine",
        )


def _needed(settings: Mapping[str, str], name: str, form: re.Pattern[str], allowed: str) -> str:
    found = values.text_of(settings, name, form, allowed)
    if found is None:
        raise InvalidInput(f"the provider ec2 needs the setting {name!r}", hint=allowed)
    return found
