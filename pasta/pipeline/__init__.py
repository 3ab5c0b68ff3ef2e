"""Tools as YAML graphs of stages: read, checked and run."""
