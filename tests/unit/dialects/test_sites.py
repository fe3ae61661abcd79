"""The table of known sites, and the page that documents it."""

from __future__ import annotations

from pathlib import Path

from tarmac.systems.mantik.sites import SITES

PAGE = Path(__file__).parents[3] / "docs/using/sites.md"


def test_the_page_lists_every_known_site() -> None:
    """K1: with the URL, and where it was found."""
    page = PAGE.read_text(encoding="utf-8")
    for site in SITES:
        way, url = (
            ("UNICORE", site.unicore_url) if site.unicore_url else ("firecREST", site.firecrest_api_url)
        )
        assert f"| {site.machine} | {site.centre} | {way} | `{url}` | {site.source} |" in page
    assert page.count("| UNICORE |") + page.count("| firecREST |") == len(SITES)


def test_a_site_is_reached_in_exactly_one_way() -> None:
    """K1."""
    for site in SITES:
        assert (site.unicore_url is None) == (site.firecrest_api_url is not None)
        assert (site.firecrest_api_url is None) == (site.firecrest_token_url is None)
