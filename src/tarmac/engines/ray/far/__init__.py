"""Code that runs beside a Ray, with its Python, 3.9 or later: the only place that imports `ray`."""
