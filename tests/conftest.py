"""Fixtures shared by all tests."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent


@pytest.fixture(scope="session")
def samples() -> Path:
    """The folder of real traces; tests that use it are skipped where it is absent."""
    folder = Path(os.environ.get("PASTA_SAMPLES", ROOT.parent / "shared" / "samples"))
    if not folder.is_dir():
        pytest.skip(f"no sample traces at {folder}; set PASTA_SAMPLES to their folder")
    return folder
