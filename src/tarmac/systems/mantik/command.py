"""`tarmac sites`: list known HPC sites, for configurations of Mantik. Needs no server."""

from collections.abc import Sequence

from tarmac.cli.dialogue import answer
from tarmac.cli.lazy import command
from tarmac.cli.views.table import Column, table_text
from tarmac.cli.views.terminal import stdout_terminal
from tarmac.systems.mantik.sites import SITES, Site

TABLE: Sequence[Column[Site]] = (
    Column("MACHINE", lambda site, _: site.machine),
    Column("CENTRE", lambda site, _: site.centre, optional=True),
    Column("BY", lambda site, _: "UNICORE" if site.unicore_url else "firecREST"),
    Column("URL", lambda site, _: site.unicore_url or site.firecrest_api_url),
)


@command()
def sites() -> None:
    """List known HPC sites: their machines, and the URLs that a configuration names.

    docs/using/sites.md says where each was found; a site's own documentation has the last word.
    """
    tokens = {site.centre: site.firecrest_token_url for site in SITES if site.firecrest_token_url}
    notes = [f"TokenUrl for firecREST at {centre}: {url}" for centre, url in tokens.items()]
    commands = ["To run files for a site, add it as a cluster:", *(site.address.command() for site in SITES)]
    text = "\n".join([table_text(TABLE, SITES, stdout_terminal()), "", *notes, "", *commands])
    answer({"sites": SITES}, text)
