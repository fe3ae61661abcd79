"""From the body of a request to a run in the store."""
