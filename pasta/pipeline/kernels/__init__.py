"""Array code that relational algebra is bad at, written once for numpy and cupy."""
