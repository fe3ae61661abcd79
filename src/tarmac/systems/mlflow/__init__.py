"""MLflow 3: a backend for its projects, and its tracking servers as a destination of reports."""
