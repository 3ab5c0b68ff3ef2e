"""Who runs a graph: CPU cores, one GPU, or a cluster.

An engine is a context manager with `name` and `collect(plans)`; see `base.Engine`.
"""
