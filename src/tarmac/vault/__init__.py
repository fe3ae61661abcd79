"""Secrets: stored sealed, and opened when an attempt starts. Created by `server/wiring.py`.

Reading order: `keys` (the file with the keys, and the cipher), `vault` (commands and queries). The
only package that uses the cryptography library.
"""

from tarmac.vault.keys import KeyFile
from tarmac.vault.vault import Vault

__all__ = ["KeyFile", "Vault"]
