"""The Python client: HTTP to a server, with the standard library alone.

`cli` goes through `Client`; other programs find it as `tarmac.Client`, and the nouns that describe a run
(`launching`) as `tarmac.Run` and so on. Those are imported at first use: a command needs none of them.
"""

from tarmac.client.client import Client

__all__ = ["Client"]
