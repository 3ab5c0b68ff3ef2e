"""Readers of containers (JSON, SQLite, pickle, CSV, ...), sound or damaged, whatever they hold."""
