"""The Python client: HTTP to a server, with the standard library alone.

`cli` uses `Client`; other programs import it as `tarmac.Client`, and the types that describe a run
(`launching`) as `tarmac.Run` and so on. Those are imported at first use, because commands do not need them.
"""

from tarmac.client.client import Client

__all__ = ["Client"]
