"""The report model, its renderers, and report functions that need Python beyond YAML."""
