"""The settings of a cluster behind UNICORE, checked without access to it. Called by `kind`."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from tarmac.engines.sites import settings as site_settings
from tarmac.engines.sites.settings import SiteSettings
from tarmac.model.errors import InvalidInput
from tarmac.model.kinds import setting_values as values

NAME = "unicore"
CREDENTIALS = (("user", "password"), ("token",))
"""The sets of credentials; the user's name may be a setting instead, if it is too short for a secret."""

_ENDING = "/rest/core"
_USER = re.compile(r"[^\s:]{1,200}")
_GROUP = re.compile(r"[A-Za-z0-9_.,@:+-]{1,200}")
_LOOPBACK = ("127.0.0.1", "localhost")


@dataclass(frozen=True, slots=True, kw_only=True)
class UnicoreSettings:
    """The site; the `group` that runs use there, and a file with the certificate of its authority.

    `user` is the name that belongs to a password, unless that name is a secret itself.
    """

    site: SiteSettings
    user: str | None = None
    group: str | None = None
    ca: Path | None = None


def read_settings(settings: Mapping[str, Any]) -> UnicoreSettings:
    """The settings of a description; raises InvalidInput with the first mistake."""
    site = site_settings.read_settings(settings, NAME, more=("user", "group", "ca"))
    parts = urlsplit(site.url)
    if parts.scheme != "https" and parts.hostname not in _LOOPBACK:
        raise InvalidInput(
            f"'url' is {site.url!r:.200}", hint="https alone: passwords travel with each request"
        )
    url = site.url if site.url.endswith(_ENDING) else site.url + _ENDING
    return UnicoreSettings(
        site=replace(site, url=url),
        user=values.text_of(settings, "user", _USER, "a name without blanks and colons"),
        group=values.text_of(settings, "group", _GROUP, "the name of a group there"),
        ca=values.path_of(settings, "ca"),
    )


def check_credentials(settings: UnicoreSettings, credentials: Mapping[str, str]) -> None:
    """Raise InvalidInput unless the credentials, with the name in the settings, are those of a user."""
    given = {**({"user": ""} if settings.user is not None else {}), **credentials}
    site_settings.check_credentials(given, CREDENTIALS, NAME)
