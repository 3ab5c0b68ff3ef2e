"""A package, so that its folder `torch` is not taken for PyTorch where that is missing."""
