"""Commands about runs that are called less often."""
