"""Known HPC sites, with their URLs and machines (K1): the list that `tarmac sites` prints. Pure data.

Each entry names its source. Sites change: their own documentation is authoritative.
"""

from dataclasses import dataclass

from tarmac.model.site import Firecrest, SiteAddress, unicore_address

DOCUMENT = "Mantik's documentation"
CSCS_DOCS = "docs.cscs.ch, FirecREST"
JSC_HUB = "the JupyterHub of the Jülich Supercomputing Centre"

_UNICORE = "https://zam2125.zam.kfa-juelich.de:9112/{}/rest/core"
_TOKEN = "https://auth.cscs.ch/auth/realms/firecrest-clients/protocol/openid-connect/token"
_JSC = "Jülich Supercomputing Centre"
_CSCS = "Swiss National Supercomputing Centre"


@dataclass(frozen=True, slots=True, kw_only=True)
class Site:
    """One machine: reached by `unicore_url`, or by the two URLs of firecREST."""

    machine: str
    centre: str
    source: str
    unicore_url: str | None = None
    firecrest_api_url: str | None = None
    firecrest_token_url: str | None = None

    @property
    def address(self) -> SiteAddress:
        """The site as a cluster."""
        if self.unicore_url is not None:
            return unicore_address(self.unicore_url)
        assert self.firecrest_api_url is not None
        assert self.firecrest_token_url is not None
        return Firecrest(
            api_url=self.firecrest_api_url, token_url=self.firecrest_token_url, machine=self.machine
        ).address


def _unicore(machine: str, source: str) -> Site:
    return Site(machine=machine, centre=_JSC, source=source, unicore_url=_UNICORE.format(machine))


def _firecrest(machine: str, api_url: str, source: str) -> Site:
    return Site(
        machine=machine, centre=_CSCS, source=source, firecrest_api_url=api_url, firecrest_token_url=_TOKEN
    )


SITES = (
    _unicore("JUWELS", DOCUMENT),
    _unicore("JURECA", JSC_HUB),
    _unicore("JUSUF", JSC_HUB),
    _unicore("HDFML", JSC_HUB),
    _unicore("DEEP", JSC_HUB),
    _firecrest("daint", "https://firecrest.cscs.ch", DOCUMENT),
    _firecrest("daint", "https://api.cscs.ch/hpc/firecrest/v2", CSCS_DOCS),
    _firecrest("eiger", "https://api.cscs.ch/hpc/firecrest/v2", CSCS_DOCS),
    _firecrest("bristen", "https://api.cscs.ch/ml/firecrest/v2", CSCS_DOCS),
    _firecrest("clariden", "https://api.cscs.ch/ml/firecrest/v2", CSCS_DOCS),
    _firecrest("santis", "https://api.cscs.ch/cw/firecrest/v2", CSCS_DOCS),
)
