"""Small recorded files that the importers' own tests read too."""

from __future__ import annotations

from tests.conftest import ROOT
from tests.fuzz.content import Content, one_file

_IMPORTERS = ROOT / "tests" / "collect" / "importers"


def recorded(name: str, lines: int | None = None) -> Content:
    """Return a file by its path in the importers' tests, or its first lines."""
    data = (_IMPORTERS / name).read_bytes()
    if lines is not None:
        data = b"".join(data.splitlines(keepends=True)[:lines])
    return one_file(data)
