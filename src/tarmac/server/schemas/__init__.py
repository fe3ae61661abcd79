"""The shapes of docs/api.md for OpenAPI: requests are checked against them, answers described by them."""
