"""New pieces go where pasta, or the project that they are in, finds them."""

from __future__ import annotations

from pathlib import Path

import pytest

from pasta.errors import PastaError
from pasta.new.layout import layout_of


def files_of(kind: str, folder: Path) -> list[str]:
    layout = layout_of(kind, "mine", folder)
    return [str(path.relative_to(folder)) for path in layout.files.values()]


def test_the_second_piece_joins_the_package_of_the_first(tmp_path):
    folder = tmp_path / "Some Things!"
    assert files_of("stage", folder) == [
        "pasta_some_things/mine.py",
        "tests/test_mine.py",
        "docs/mine.md",
        "pasta_some_things/__init__.py",
        "pyproject.toml",
    ]
    package = folder / "src" / "other"
    package.mkdir(parents=True)
    (package / "__init__.py").touch()
    (folder / "pyproject.toml").write_text('[project.entry-points.pasta]\nx = "other:all"\n')
    layout = layout_of("importer", "mine", folder)
    assert layout.values["module"] == "other.mine"
    assert files_of("importer", folder)[0] == "src/other/mine.py"
    assert "pyproject.toml" not in files_of("importer", folder)


def test_a_project_that_pasta_does_not_know_is_told_what_to_add(tmp_path):
    folder = tmp_path / "pasta-more"
    folder.mkdir()
    (folder / "pyproject.toml").write_text('[project]\nname = "more"\n')
    layout = layout_of("collector", "mine", folder)
    assert folder / "pyproject.toml" not in layout.files.values()
    assert layout.hints[-2] == (
        'add to pyproject.toml, under [project.entry-points.pasta]: pasta_more = "pasta_more"'
    )


def test_a_project_inside_a_clone_is_no_part_of_it(tmp_path):
    (tmp_path / "pyproject.toml").write_text('[project]\nname = "pasta-trace"\n')
    own = tmp_path / "own"
    own.mkdir()
    assert layout_of("tool", "mine", own).files["tool/tool.yaml"] == tmp_path / "configs/mine.yaml"
    (own / "pyproject.toml").write_text('[project]\nname = "own"\n')
    assert layout_of("tool", "mine", own).files["tool/tool.yaml"] == own / "mine.yaml"


def test_tests_in_a_clone_have_names_of_their_own(tmp_path):
    (tmp_path / "pyproject.toml").write_text('[project]\nname = "pasta-trace"\n')
    (tmp_path / "tests" / "tools").mkdir(parents=True)
    (tmp_path / "tests" / "tools" / "test_mine.py").touch()
    with pytest.raises(PastaError, match=r"tools/test_mine\.py is a test of that name already"):
        layout_of("stage", "mine", tmp_path)


def test_a_broken_pyproject_is_named(tmp_path):
    (tmp_path / "pyproject.toml").write_text("[project\n")
    with pytest.raises(PastaError, match=r"pyproject\.toml: cannot be read"):
        layout_of("tool", "mine", tmp_path)
