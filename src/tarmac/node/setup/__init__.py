"""Making the environment of a run: repositories, interpreters, packages."""
