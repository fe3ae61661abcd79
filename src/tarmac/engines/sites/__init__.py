"""Sites: clusters with a queue of their own that tarmac reaches by a web interface, without SSH."""
