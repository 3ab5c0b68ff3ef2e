"""Fuzzing of the importers: damaged and hostile files, and a judge of what becomes of them.

- `test_fuzz`: a bounded run with hypothesis, part of the ordinary tests;
- `python -m tests.fuzz.many`: as many inputs as wanted, without feedback, by several processes;
- `python -m tests.fuzz.coverage IMPORTER`: guided by coverage, with atheris.
"""
