"""What a site would be sent for a run, as text: a batch script, or a UNICORE job description. Pure.

Called by `control.reports` for a dry run.
"""

from __future__ import annotations

from tarmac.launch.batch_script import batch_script
from tarmac.launch.unicore_job import unicore_text
from tarmac.model.spec import RunSpec


def site_text(spec: RunSpec) -> str | None:
    """The text in the form of the run's site; None for a run that goes to none."""
    if spec.site is None:
        return None
    if spec.site.unicore_url is not None:
        return unicore_text(spec, name=spec.name)
    return batch_script(spec, name=spec.name)


def site_name(spec: RunSpec) -> str | None:
    """How people call the site of a run."""
    site = spec.site
    if site is None:
        return None
    return site.unicore_url or (
        f"{site.firecrest.machine} at {site.firecrest.api_url}" if site.firecrest else ""
    )
