"""Commands about the people of a shared server: accounts, tokens, limits and credits."""
