"""The settings of an EC2 account, checked without access to it. Called by `kind` and `things`."""

import re
from collections.abc import Mapping

from tarmac.model.burst.provider import ProviderRecord
from tarmac.model.errors import InvalidInput
from tarmac.model.kinds import setting_values as values

FORMS = {
    "region": (re.compile(r"[a-z0-9-]{1,50}"), "a region such as eu-north-1"),
    "image": (re.compile(r"ami-[0-9a-f]{1,40}"), "the id of an image such as ami-1234"),
    "subnets": (re.compile(r"subnet-[0-9a-f]+(,subnet-[0-9a-f]+)*"), "ids such as subnet-12,subnet-34"),
    "security_groups": (re.compile(r"sg-[0-9a-f]+(,sg-[0-9a-f]+)*"), "ids such as sg-12,sg-34"),
    "profile": (re.compile(r"[A-Za-z0-9+=,.@_-]{1,128}"), "the name of an instance profile"),
    "url": (re.compile(r"https?://[A-Za-z0-9.-]+(:[0-9]{1,5})?(/[A-Za-z0-9._~/-]*)?"), "a URL"),
}
REQUIRED = ("region", "image", "subnets")
"""The image of new machines, and one subnet for each zone, tried in this order."""

CREDENTIALS = ((), ("access_key", "secret_key"), ("access_key", "secret_key", "session_token"))
"""The sets of credentials. Without any, boto3 finds its own: variables, files, or the role of the machine."""

MOST_DISK_GB = 16_384
DEFAULT_TIMEOUT_S = 60.0


def check(record: ProviderRecord) -> None:
    """Raise InvalidInput for settings of no EC2 account, or credentials of no identity."""
    values.refuse_unknown(record.settings, (*FORMS, "disk_gb", "timeout"), "the provider ec2")
    for name, (form, allowed) in FORMS.items():
        if values.text_of(record.settings, name, form, allowed) is None and name in REQUIRED:
            raise InvalidInput(f"the provider ec2 needs the setting {name!r}", hint=allowed)
    disk_gb(record.settings)
    timeout_s(record.settings)
    if not any(set(record.credentials) == set(allowed) for allowed in CREDENTIALS):
        raise InvalidInput(
            f"the provider ec2 has the credentials {', '.join(sorted(record.credentials))}",
            hint="access_key and secret_key, also session_token; or none, for those of the server's machine",
        )


def disk_gb(settings: Mapping[str, str]) -> int:
    """The size of the first disk of a machine; 0: that of its image."""
    return values.count_of(settings, "disk_gb", most=MOST_DISK_GB)


def timeout_s(settings: Mapping[str, str]) -> float:
    """The longest wait for one answer."""
    return values.seconds_of(settings, "timeout", "for one answer, such as 60s") or DEFAULT_TIMEOUT_S
