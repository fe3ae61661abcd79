"""The simulator: traces and histories played through the real control plane in virtual time."""
