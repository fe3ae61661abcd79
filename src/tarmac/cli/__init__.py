"""The commands: thin, over `client`."""
