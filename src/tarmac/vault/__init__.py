"""Secrets: stored sealed, and opened when an attempt starts; passwords; the identity provider's tokens.

Created by `server/wiring.py`. Reading order: `keys` (the file with the keys, and the cipher), `vault`
(commands and queries of secrets). The only package that uses libraries of cryptography.
"""

from tarmac.vault.keys import KeyFile
from tarmac.vault.vault import Vault

__all__ = ["KeyFile", "Vault"]
