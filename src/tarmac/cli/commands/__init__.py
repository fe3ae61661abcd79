"""One module per command, imported when it is called (see `tarmac.cli.catalogue`)."""
