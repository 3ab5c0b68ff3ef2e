"""Docs keep up with the code."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from pasta.tools.shipped import ToolFiles, shipped_tools

ROOT = Path(__file__).parent.parent


@pytest.mark.parametrize("tool", list(shipped_tools()))
def test_every_tool_has_a_page_that_names_its_parameters_and_tables(tool):
    page = (ROOT / "docs" / "tools" / f"{tool.split('/')[0]}.md").read_text()
    config = ToolFiles().tool(tool)
    for name in [*config.parameters, *(spec.table for spec in config.inputs.values())]:
        assert f"`{name}`" in page, name
    assert f"pasta run {tool}" in page


def test_reference_pages_are_those_of_the_code():
    command = [sys.executable, "docs/generate.py", "--check"]
    result = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stdout


@pytest.mark.parametrize("page", [ROOT / "README.md", *sorted(ROOT.glob("docs/**/*.md"))])
def test_links_lead_somewhere(page):
    for target in re.findall(r"\]\(([^)#]+?)(?:#[^)]*)?\)", page.read_text()):
        if "://" not in target:
            assert (page.parent / target).exists(), target


def test_docs_name_every_dependency():
    text = (ROOT / "pyproject.toml").read_text()
    block = text.partition("dependencies = [")[2].partition("]")[0]
    names = re.findall(r'"([a-z]+)', block)
    page = (ROOT / "docs" / "architecture.md").read_text()
    assert names
    for name in names:
        assert f"| {name} |" in page
