"""Commands that open sessions beside workers, or follow workers."""
