"""Sessions: a command, or a connection to a port, in the surroundings of a running worker."""
