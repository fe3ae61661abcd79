"""Makes the environment of a run: repositories, interpreters, packages."""
