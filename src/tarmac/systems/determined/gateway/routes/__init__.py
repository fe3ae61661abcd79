"""Routes by subject, each file with a tuple `ROUTES`."""
