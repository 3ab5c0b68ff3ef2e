"""Where the files of a new piece go: into a clone of pasta, or into a project of the user's own."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pasta.errors import PastaError
from pasta.registry import ENTRY_POINT_GROUP

_PASTA = "pasta-trace"


@dataclass(frozen=True)
class Layout:
    """What is written for a new piece.

    Attributes:
        files: template -> the file that is made of it.
        values: what the words of templates stand for, beside the name.
        hints: what to do next, in order, a line each.
    """

    files: dict[str, Path]
    values: dict[str, str]
    hints: list[str]


@dataclass(frozen=True)
class _Place:
    """Where pasta itself keeps a kind of piece."""

    module: str
    test: str
    page: str | None
    hints: tuple[str, ...]


_REFERENCE = "bring the reference up to date: python docs/generate.py"
_PLACES = {
    "tool": _Place(
        "configs/{}.yaml", "tests/tools/test_{}.py", "docs/tools/{}.md",
        ("list its page in mkdocs.yml", _REFERENCE),
    ),
    "stage": _Place(
        "pasta/pipeline/stages/{}.py", "tests/pipeline/stages/test_{}.py", None,
        (f"{_REFERENCE} (its docstring is its page)",),
    ),
    "importer": _Place(
        "pasta/collect/importers/{}.py", "tests/collect/importers/test_{}.py", "docs/importers/{}.md",
        ("list its page in mkdocs.yml", "give the fuzzer small valid files: docs/fuzzing.md"),
    ),
    "collector": _Place(
        "pasta/collect/{}.py", "tests/collect/test_{}.py", "docs/collectors/{}.md",
        ("list its page in mkdocs.yml",),
    ),
}  # fmt: skip


def layout_of(kind: str, name: str, folder: Path) -> Layout:
    """Return where a new piece goes.

    Raises:
        PastaError: a `pyproject.toml` on the way cannot be read.
    """
    clone = _clone_around(folder)
    if clone is not None:
        return _in_clone(kind, name, clone)
    return _tool_project(name, folder) if kind == "tool" else _package_project(kind, name, folder)


def _in_clone(kind: str, name: str, clone: Path) -> Layout:
    place = _PLACES[kind]
    module, test = place.module.format(name), place.test.format(name)
    for other in sorted((clone / "tests").rglob(Path(test).name)):
        if other != clone / test:
            raise PastaError(f"{other} is a test of that name already; choose another name")
    files = {f"{kind}/{_main(kind)}": clone / module, f"{kind}/test.py": clone / test}
    if place.page is not None:
        files[f"{kind}/page.md"] = clone / place.page.format(name)
    values = {
        "tool_file": module,
        "up": str(test.count("/")),
        "module": module.removesuffix(".py").replace("/", "."),
    }
    return Layout(files, values, [f"test it: python -m pytest {test}", *place.hints])


def _tool_project(name: str, folder: Path) -> Layout:
    files = {
        "tool/tool.yaml": folder / f"{name}.yaml",
        "tool/page.md": folder / "docs" / f"{name}.md",
        "tool/test.py": folder / "tests" / f"test_{name}.py",
    }
    hints = [
        *_enter(folder),
        f"run it: pasta run {name}",
        f"test it: python -m pytest tests/test_{name}.py",
    ]
    return Layout(files, {"tool_file": f"{name}.yaml", "up": "1"}, hints)


def _package_project(kind: str, name: str, folder: Path) -> Layout:
    """Return files of a package whose entry point pasta loads; one project may hold many pieces."""
    project = _project(folder)
    package = next(_plugin_packages(project, folder), None)
    home = folder / _package_name(folder) if package is None else package
    module = f"{home.name}.{name}"
    files = {
        f"{kind}/module.py": home / f"{name}.py",
        f"{kind}/test.py": folder / "tests" / f"test_{name}.py",
        f"{kind}/page.md": folder / "docs" / f"{name}.md",
    }
    hints = [
        *_enter(folder),
        f"test it: python -m pytest tests/test_{name}.py",
        "let pasta find it, once for all of this folder: pip install -e .",
    ]
    if package is None and not (home / "__init__.py").exists():
        files["project/package.py"] = home / "__init__.py"
    if project is None:
        files["project/pyproject.toml"] = folder / "pyproject.toml"
    elif package is None:
        entry = f'{home.name} = "{home.name}"'
        hints.insert(-1, f"add to pyproject.toml, under [project.entry-points.pasta]: {entry}")
    values = {
        "module": module,
        "package": home.name,
        "distribution": home.name.replace("_", "-"),
    }
    return Layout(files, values, hints)


def _main(kind: str) -> str:
    return "tool.yaml" if kind == "tool" else "module.py"


def _enter(folder: Path) -> list[str]:
    """Return the hint to go to the folder, unless it is the current one."""
    return [] if folder.resolve() == Path.cwd() else [f"go there: cd {folder}"]


def _clone_around(folder: Path) -> Path | None:
    """Return the clone of pasta that holds `folder`, if one does."""
    folder = folder.resolve()
    for parent in (folder, *folder.parents):
        project = _project(parent)
        if project is not None:
            return parent if project.get("name") == _PASTA else None
    return None


def _project(folder: Path) -> dict[str, Any] | None:
    """Return what `pyproject.toml` says of the project in a folder; `None`: there is no such file."""
    path = folder / "pyproject.toml"
    if not path.is_file():
        return None
    try:
        project = tomllib.loads(path.read_text(encoding="utf-8")).get("project", {})
    except (OSError, ValueError) as error:
        raise PastaError(f"{path}: cannot be read ({error}); mend it first") from error
    return project if isinstance(project, dict) else {}


def _plugin_packages(project: dict[str, Any] | None, folder: Path) -> Iterator[Path]:
    """Yield the packages of a project that pasta loads by their entry points."""
    points = (project or {}).get("entry-points", {}).get(ENTRY_POINT_GROUP, {})
    for value in points.values():
        module = str(value).partition(":")[0].strip()
        for root in (folder, folder / "src"):
            package = root / module
            if module.isidentifier() and (package / "__init__.py").is_file():
                yield package


def _package_name(folder: Path) -> str:
    """Return a name for the package of a folder, which no other project is likely to have."""
    words = re.sub(r"[^a-z0-9]+", "_", folder.resolve().name.lower()).strip("_")
    return f"pasta_{words.removeprefix('pasta').strip('_') or 'additions'}"
