"""Collectors and importers: everything that fills a trace."""
