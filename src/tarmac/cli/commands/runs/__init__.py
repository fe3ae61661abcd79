"""Less frequent commands about runs."""
