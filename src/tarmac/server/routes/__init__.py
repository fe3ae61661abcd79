"""The routes, one file per noun; each has a function that makes its router over a `Service`."""
