"""The same measurements of others, as far as they have something to compare: one module per peer."""
