"""`UnicoreEngine`: attempts as jobs of UNICORE. Made by `UnicoreKind`."""

from dataclasses import replace

from tarmac.engines.sites.engine import SiteEngine
from tarmac.engines.slurm.script import SlurmRequest
from tarmac.engines.unicore.login_hooks import login_scripts, without_login_hooks
from tarmac.node.attempt.document import Launch


class UnicoreEngine(SiteEngine):
    """The engine of one cluster."""

    def render(self, launch: Launch) -> SlurmRequest:
        """Commands for the login node run there, not on the first node."""
        directory = self._host.directory(launch.attempt_id)
        request = super().render(without_login_hooks(launch, directory))
        return replace(request, login_scripts=login_scripts(launch, directory))
