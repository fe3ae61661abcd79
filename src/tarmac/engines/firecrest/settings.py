"""The settings of a cluster behind a firecREST, checked without access to it. Called by `kind`."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tarmac.engines.sites import settings as site_settings
from tarmac.engines.sites.settings import SiteSettings
from tarmac.model.errors import InvalidInput
from tarmac.model.kinds import setting_values as values

CREDENTIALS = ("client_id", "client_secret")
_SYSTEM = re.compile(r"[A-Za-z0-9_.-]{1,100}")
_ENGINE = "firecrest"


@dataclass(frozen=True, slots=True, kw_only=True)
class FirecrestSettings:
    """A system of a firecREST, and the address that gives tokens for it."""

    site: SiteSettings
    token_url: str
    system: str


def read_settings(settings: Mapping[str, Any]) -> FirecrestSettings:
    """The settings of a description; raises InvalidInput with the first mistake."""
    site = site_settings.read_settings(settings, _ENGINE, more=("token_url", "system"))
    system = values.text_of(settings, "system", _SYSTEM, "the name of a system of that firecREST")
    if system is None:
        hint = "the name of one of its systems; GET URL/status/systems lists them"
        raise InvalidInput(f"the engine {_ENGINE} needs the setting 'system'", hint=hint)
    token_url = site_settings.needed(settings, "token_url", _ENGINE)
    return FirecrestSettings(site=site, token_url=token_url, system=system)
