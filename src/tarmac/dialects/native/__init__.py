"""tarmac's own run file: YAML, described in docs/using/run-file.md. Reached through `systems.registry`."""
