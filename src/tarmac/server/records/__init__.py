"""Records of the model as JSON objects, for the routes and streams."""
