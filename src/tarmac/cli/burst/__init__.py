"""Commands about rented machines: shapes, providers and rentals."""
