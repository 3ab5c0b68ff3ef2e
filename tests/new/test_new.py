"""What `pasta new` writes works as it stands, in a project of one's own and in a clone of pasta."""

from __future__ import annotations

import errno
import os
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from click.testing import CliRunner

import pasta
from pasta import new
from pasta.cli import cli
from pasta.errors import PastaError
from pasta.new import KINDS, make
from pasta.tools.shipped import SHIPPED_TRACE, shipped_tools
from tests.copies import run_python

ROOT = Path(__file__).parents[2]
LONG = "a_name_of_forty_letters_and_underscores_"


def python(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, *arguments]
    paths = [str(folder), *filter(None, [os.environ.get("PYTHONPATH")])]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(paths)}
    return subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, check=False
    )


def assert_passes(result: subprocess.CompletedProcess[str], says: str) -> None:
    assert result.returncode == 0, result.stdout + result.stderr
    assert says in result.stdout


def assert_in_house_style(folder: Path) -> None:
    """Lint and format of pasta's own settings, which count pasta among one's own packages."""
    style = ["--config", str(ROOT / "pyproject.toml"), "--no-cache", "."]
    own = ["--config", 'lint.isort.known-first-party=["pasta"]']
    ignored = ["--config", 'lint.per-file-ignores={"tests/**" = ["ANN", "D", "INP001", "S"]}']
    assert_passes(python(folder, "-m", "ruff", "check", *style, *own, *ignored), "All checks")
    assert_passes(python(folder, "-m", "ruff", "format", "--check", *style), "already formatted")


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A project with one piece of each kind, and some of long names."""
    folder = tmp_path_factory.mktemp("own") / "my-things"
    for kind in KINDS:
        make(kind, f"my_{kind}", folder)
        make(kind, f"{LONG[: -len(kind)]}{kind}", folder)
    return folder


@pytest.fixture(scope="module")
def clone(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of pasta with one new piece of each kind."""
    copy = tmp_path_factory.mktemp("clone")
    for folder in ("pasta", "configs"):
        shutil.copytree(ROOT / folder, copy / folder, ignore=shutil.ignore_patterns("__pycache__"))
    for file in ("tests/conftest.py", "pyproject.toml"):
        (copy / file).parent.mkdir(exist_ok=True)
        shutil.copy(ROOT / file, copy / file)
    for kind in KINDS:
        make(kind, f"my_{kind}", copy / "pasta" / "pipeline")
    return copy


def test_a_project_of_ones_own_passes_its_tests(project):
    result = python(project, "-m", "pytest", "-q", "-p", "no:cacheprovider")
    assert_passes(result, "8 passed")
    assert_in_house_style(project)


def test_a_clone_passes_the_new_tests(clone):
    names = [f"my_{kind}" for kind in KINDS]
    tests = sorted(str(p.relative_to(clone)) for n in names for p in clone.rglob(f"test_{n}.py"))
    assert tests == [
        "tests/collect/importers/test_my_importer.py",
        "tests/collect/test_my_collector.py",
        "tests/pipeline/stages/test_my_stage.py",
        "tests/tools/test_my_tool.py",
    ]
    result = run_python(clone, "-m", "pytest", "-q", "-p", "no:cacheprovider", *tests)
    assert_passes(result, "4 passed")
    pages = sorted(str(p.relative_to(clone)) for n in names for p in clone.rglob(f"{n}.md"))
    assert pages == [
        "docs/collectors/my_collector.md",
        "docs/importers/my_importer.md",
        "docs/tools/my_tool.md",
    ]
    new = [str(path) for name in names for path in clone.rglob(f"*{name}.py")]
    assert_passes(run_python(clone, "-m", "ruff", "check", "--no-cache", *new), "All checks")


@pytest.fixture
def installed(project: Path, tmp_path: Path) -> Path:
    """A copy of the project with what an installation of it says of its entry points."""
    copy = shutil.copytree(project, tmp_path / "installed")
    declared = tomllib.loads((copy / "pyproject.toml").read_text())["project"]
    points = "".join(f"{a} = {b}\n" for a, b in declared["entry-points"]["pasta"].items())
    told = copy / f"{declared['name'].replace('-', '_')}-0.1.0.dist-info"
    told.mkdir()
    (told / "METADATA").write_text(f"Name: {declared['name']}\nVersion: 0.1.0\n")
    (told / "entry_points.txt").write_text(f"[pasta]\n{points}")
    return copy


def test_pasta_finds_the_pieces_of_an_installed_project(installed):
    (installed / "uses_it.yaml").write_text(
        "version: 1\n"
        "tool: uses_it\n"
        "about: How many kernels last for 10 us.\n"
        "inputs: {kernels: {table: kernel}}\n"
        "stages:\n"
        "  marked: {use: my_stage, from: kernels, at_least: 10us}\n"
        "  long: {use: filter, from: marked, where: long}\n"
        "  counted: {use: aggregate, from: long, measures: {kernels: count(*)}}\n"
        "report: [{facts: counted}]\n"
    )
    kernels = pasta.open(SHIPPED_TRACE).scan("kernel").select("dur").collect()["dur"]
    result = python(installed, "-m", "pasta", "run", "uses_it", "--format", "json")
    assert_passes(result, f'"facts": {{"kernels": {(kernels >= 10_000).sum()}}}')
    (installed / "a.txt").write_text("my_importer trace\nload 5 10\n")
    imported = python(installed, "-m", "pasta", "import", "a.txt", "-o", "t")
    assert_passes(imported, "my_importer trace")


def test_a_plugin_that_fails_is_named(installed):
    (installed / "pasta_my_things" / "wrong.py").write_text("1 / 0\n")
    result = python(installed, "-m", "pasta", "import", "--formats")
    assert result.returncode == 2
    assert "the plugin pasta-my-things cannot be loaded" in result.stderr
    assert result.stderr.count("\n") == 1


def test_new_and_run(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    said = CliRunner().invoke(cli, ["new", "tool", "mine"], catch_exceptions=False)
    assert said.output.splitlines() == [
        "wrote mine.yaml",
        "wrote docs/mine.md",
        "wrote tests/test_mine.py",
        "run it: pasta run mine",
        "test it: python -m pytest tests/test_mine.py",
    ]
    report = pasta.run("mine", top=1)
    assert report.tables["longest"].height == 1
    assert report.notes[0] == "no trace was named: this is the trace that ships with pasta"


def test_a_local_file_does_not_hide_a_shipped_tool(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    make("tool", "mine", tmp_path)
    (tmp_path / "configs").mkdir()
    text = (tmp_path / "mine.yaml").read_text()
    own = tmp_path / "configs" / "working_set.yaml"
    own.write_text(text)
    shipped = pasta.run("working_set")
    assert shipped.tool == "working_set"
    said = "this tool ships with pasta; to run configs/working_set.yaml here, name it as"
    assert shipped.notes[0] == f"{said} ./configs/working_set.yaml"
    assert pasta.run("./configs/working_set.yaml").tool == "mine"
    shutil.copy(shipped_tools()["working_set"], own)
    assert "ships with pasta; to" not in pasta.run("working_set").notes[0]


def test_a_tool_in_configs_is_found_by_name(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    make("tool", "mine", tmp_path)
    (tmp_path / "configs").mkdir()
    (tmp_path / "mine.yaml").rename(tmp_path / "configs" / "mine.yaml")
    assert pasta.run("mine").tool == "mine"
    with pytest.raises(PastaError, match="no such file or shipped tool 'elsewhere/mine'"):
        pasta.run("elsewhere/mine")


def test_into_another_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    options = ["new", "stage", "mine", "--into", "there"]
    said = CliRunner().invoke(cli, options, catch_exceptions=False)
    assert "wrote there/pasta_there/mine.py\n" in said.output
    assert "go there: cd there" in said.output


def test_in_a_clone_paths_are_told_from_here(clone, monkeypatch):
    monkeypatch.chdir(clone)
    said = CliRunner().invoke(cli, ["new", "tool", "my_other"], catch_exceptions=False)
    assert said.output.startswith("wrote configs/my_other.yaml\nwrote tests/tools/test_my_other.py")
    monkeypatch.chdir(clone / "tests")
    said = CliRunner().invoke(cli, ["new", "tool", "my_third"], catch_exceptions=False)
    assert said.output.startswith(f"wrote {clone.resolve()}/configs/my_third.yaml")


@pytest.mark.parametrize(
    "name",
    ["", "Mine", "my-tool", "1st", "_mine", "../mine", "a b", "class", "m\x1b", "a" * 41, "é"],
)
def test_names_that_are_not_allowed(tmp_path, name):
    with pytest.raises(PastaError, match="a name is a lowercase letter, then") as error:
        make("stage", name, tmp_path)
    assert str(error.value).isprintable()
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("kind", "name"),
    [("tool", "working_set"), ("stage", "filter"), ("importer", "kineto"), ("collector", "nvml")],
)
def test_names_that_are_taken(tmp_path, kind, name):
    with pytest.raises(PastaError, match=f"there is already a {kind} '{name}'"):
        make(kind, name, tmp_path)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", ["pl", "stage"])
def test_names_that_the_file_of_a_stage_uses_itself(tmp_path, name):
    with pytest.raises(PastaError, match=f"uses '{name}' for something else"):
        make("stage", name, tmp_path)


def test_nothing_is_overwritten(tmp_path):
    (tmp_path / "tests").mkdir()
    test = tmp_path / "tests" / "test_mine.py"
    test.write_text("mine")
    with pytest.raises(PastaError, match=r"test_mine\.py is there already"):
        make("tool", "mine", tmp_path)
    assert test.read_text() == "mine"
    assert [path.name for path in tmp_path.iterdir()] == ["tests"]


def test_a_folder_that_cannot_be_made(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(PastaError, match="file: File exists"):
        make("tool", "mine", tmp_path / "file")


def test_where_the_disk_is_full_no_file_is_left_and_the_one_is_named(tmp_path, monkeypatch):
    def full(_template, _values):
        if list(tmp_path.rglob("mine.yaml")):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return filled(_template, _values)

    filled = new._filled
    monkeypatch.setattr(new, "_filled", full)
    with pytest.raises(PastaError, match=r"mine.*: No space left on device"):
        make("tool", "mine", tmp_path)
    assert not [path for path in tmp_path.rglob("*") if path.is_file()]
