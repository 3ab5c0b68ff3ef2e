"""Who runs a graph: CPU cores, one GPU, or a cluster."""
