"""The recipes of `docs/adding.md` work as they stand: each file is written and its test is run."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest

from tests.copies import run_python

ROOT = Path(__file__).parent.parent
FILE = re.compile(r"^`([\w/.]+)`\n\n```\w+\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def recipe_files(title: str) -> dict[str, str]:
    text = (ROOT / "docs" / "adding.md").read_text()
    section = text.partition(f"\n## {title}\n")[2].partition("\n## ")[0]
    return dict(FILE.findall(section))


@pytest.fixture(scope="module")
def checkout(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the project to add things to."""
    copy = tmp_path_factory.mktemp("checkout")
    ignored = shutil.ignore_patterns("__pycache__")
    for folder in ("pasta", "configs"):
        shutil.copytree(ROOT / folder, copy / folder, ignore=ignored)
    (copy / "tests").mkdir()
    for file in ("tests/conftest.py", "pyproject.toml"):
        shutil.copy(ROOT / file, copy / file)
    return copy


@pytest.mark.parametrize("title", ["A stage", "A tool", "An importer", "A collector"])
def test_recipe(checkout, title):
    files = recipe_files(title)
    assert len(files) == 2
    for name, text in files.items():
        path = checkout / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    test = next(name for name in files if name.startswith("tests/"))
    result = run_python(checkout, "-m", "pytest", "-q", test, "-p", "no:cacheprovider")
    assert result.returncode == 0, result.stdout + result.stderr
    assert "1 passed" in result.stdout
