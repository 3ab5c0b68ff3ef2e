"""Lists of cores, as Linux writes them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pasta.errors import ConfigError
from pasta.system.cores import cores_text, read_cores


@given(st.sets(st.integers(0, 5000)))
def test_what_is_written_is_read_back(cores):
    assert set(read_cores(cores_text(cores), "cores")) == cores


def test_ranges_are_as_linux_writes_them():
    assert read_cores("0-3,8, 10-11", "cores") == (0, 1, 2, 3, 8, 10, 11)
    assert cores_text([10, 0, 1, 2, 3, 8, 11]) == "0-3,8,10-11"
    assert read_cores("", "cores") == ()


@pytest.mark.parametrize("text", ["3-1", "a", "1-", "-1", "1;2", "0x3", "1-2-3"])
def test_anything_else_is_refused_with_its_place(text):
    with pytest.raises(ConfigError, match=r"^head\.cores: expected cores such as 0-3,8, got "):
        read_cores(text, "head.cores")
