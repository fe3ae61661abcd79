"""The people of a shared server: accounts, limits and credits, and the announcement to all of them."""
