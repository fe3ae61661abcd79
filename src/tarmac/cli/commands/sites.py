"""`tarmac sites`: list known HPC sites, for configurations of Mantik. Needs no server."""

from __future__ import annotations

from dataclasses import asdict

import click

from tarmac.cli.options import json_option
from tarmac.cli.output import print_json, print_text
from tarmac.cli.views.table import heads, render
from tarmac.cli.views.terminal import stdout_terminal
from tarmac.systems.mantik.sites import SITES

_HEADS = heads("MACHINE, CENTRE, BY, URL", optional="CENTRE")


@click.command()
@json_option
def sites(*, as_json: bool) -> None:
    """List known HPC sites: their machines, and the URLs that a configuration names.

    docs/using/sites.md says where each was found; a site's own documentation has the last word.
    """
    if as_json:
        print_json({"sites": [asdict(site) for site in SITES]})
        return
    rows = [
        (
            site.machine,
            site.centre,
            "UNICORE" if site.unicore_url else "firecREST",
            site.unicore_url or site.firecrest_api_url or "",
        )
        for site in SITES
    ]
    tokens = {site.centre: site.firecrest_token_url for site in SITES if site.firecrest_token_url}
    notes = [f"TokenUrl for firecREST at {centre}: {url}" for centre, url in tokens.items()]
    print_text("\n".join([render(_HEADS, rows, stdout_terminal()), "", *notes]))
