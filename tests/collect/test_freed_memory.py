"""Giving back freed memory frees nothing that is in use."""

import pyarrow as pa
import pytest

from pasta.collect import freed_memory
from pasta.collect.freed_memory import give_back


def test_what_is_held_stays():
    held = pa.array(range(1 << 16))
    before = pa.total_allocated_bytes()
    give_back()
    assert pa.total_allocated_bytes() == before
    assert held.sum().as_py() == (1 << 16) * ((1 << 16) - 1) // 2


@pytest.mark.parametrize("error", [OSError, TypeError])
def test_other_systems_than_those_with_glibc(monkeypatch, error):
    def refuse(_):
        raise error

    monkeypatch.setattr(freed_memory.ctypes, "CDLL", refuse)
    give_back()
