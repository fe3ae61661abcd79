"""The queue as users see and change it."""
