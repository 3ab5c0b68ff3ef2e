"""Names stand for what ships, unless a path of that name is there."""

from __future__ import annotations

from pathlib import Path

import pytest

import pasta
from pasta.errors import ConfigError, TraceError
from pasta.pipeline.wiring import build_graph
from pasta.testing import write_trace
from pasta.tools import shipped
from pasta.tools.shipped import (
    SHIPPED_TRACE,
    ToolFiles,
    find_config,
    find_trace,
    shipped_tools,
    tools_called,
)


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


@pytest.mark.parametrize("name", ["xsp/a11", "xsp/a11.yaml", "configs/xsp/a11.yaml"])
def test_tools_of_a_folder_have_its_name_in_front(tmp_path, monkeypatch, name):
    monkeypatch.chdir(tmp_path)
    assert find_config(name) == shipped_tools()["xsp/a11"]
    with pytest.raises(ConfigError, match="no such file or shipped tool 'a11'"):
        find_config("a11")


def test_a_folder_means_all_its_tools():
    assert [tool for tool in tools_called(["xsp"]) if "/" not in tool] == []
    assert tools_called(["xsp/a11", "diff", "xsp/a11"]) == ["xsp/a11", "diff"]
    assert "xsp/a11" not in tools_called([])
    assert "working_set" in tools_called([])
    with pytest.raises(ConfigError, match=r"no shipped tool 'xps'. Did you mean 'xsp'\?"):
        tools_called(["xps"])


def test_what_many_tools_include_is_read_once(monkeypatch):
    read = []
    load = shipped.load_config
    monkeypatch.setattr(shipped, "load_config", lambda path: (read.append(path), load(path))[1])
    files = ToolFiles()
    for name in ("host_bound", "idle_causes", "critical_path"):
        build_graph(files.tool(name), {}, files.included)
    assert len(read) == len(set(read))
