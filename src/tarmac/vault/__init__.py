"""Secrets: sealed where they are kept, opened when an attempt is started. Wired in `server/wiring.py`.

Reading order: `keys` (the file with the keys), `sealing` (the cipher), `vault` (what can be done).
The only package that knows the cryptography library.
"""

from tarmac.vault.keys import KeyFile
from tarmac.vault.vault import Vault

__all__ = ["KeyFile", "Vault"]
