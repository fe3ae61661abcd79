"""What is measured of tarmac itself: one module per measurement, through the client that users have."""
