"""Names stand for what ships, unless a path of that name is there."""

from __future__ import annotations

from pathlib import Path

import pytest

import pasta
from pasta.errors import TraceError
from pasta.testing import write_trace
from pasta.tools.shipped import SHIPPED_TRACE, find_trace


def test_shipped_traces_have_names(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert pasta.open("gpt_h100").path == SHIPPED_TRACE
    assert pasta.open("gpt_cpu").path == SHIPPED_TRACE.parent / "gpt_cpu"
    write_trace(tmp_path / "gpt_cpu", span=[])
    assert pasta.open("gpt_cpu").path == Path("gpt_cpu")


@pytest.mark.parametrize(
    "name", ["gpt_h10", "gpt_h100/kernel", "../traces/gpt_h100", ".", "..", ""]
)
def test_nothing_else_leads_into_the_package(tmp_path, monkeypatch, name):
    monkeypatch.chdir(tmp_path)
    assert find_trace(Path(name)) == Path(name)
    with pytest.raises(TraceError):
        pasta.open(name)
