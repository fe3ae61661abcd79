"""The Python client: HTTP to a server, with the standard library alone.

`cli` goes through `Client`; other programs find it as `tarmac.Client`, and the nouns to describe a run as
`tarmac.Run` and so on.
"""

from tarmac.client.client import Client
from tarmac.client.launching import GitRepo, LocalDir, Process, Resources, Role, Run

__all__ = ["Client", "GitRepo", "LocalDir", "Process", "Resources", "Role", "Run"]
