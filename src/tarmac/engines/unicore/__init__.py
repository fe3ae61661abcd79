"""The engine of clusters behind UNICORE: `UnicoreKind` opens it, `client` alone uses httpx."""
