"""Who may import whom, and what `import pasta` must not load."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parent.parent / "pasta"
MODULES = sorted(PACKAGE.rglob("*.py"))
HEAVY = {"torch", "cupy", "cudf", "cudf_polars", "dask", "dask_cuda", "distributed", "rmm"}
DATA = {"polars", "pyarrow", "numpy", "msgspec", "rich", "yaml", "click"}
PRIVATE = re.compile("_(?!_)")


def imports(path: Path, *, top_level_only: bool) -> set[str]:
    """Names of modules that `path` imports; those under TYPE_CHECKING do not count."""
    tree = ast.parse(path.read_text())
    found = set()

    def visit(node: ast.AST, *, inside: bool) -> None:
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.If) and "TYPE_CHECKING" in ast.unparse(child.test):
                continue
            function = isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef)
            if not (inside and top_level_only):
                if isinstance(child, ast.Import):
                    found.update(alias.name for alias in child.names)
                elif isinstance(child, ast.ImportFrom) and child.module and not child.level:
                    found.add(child.module)
                    found.update(f"{child.module}.{alias.name}" for alias in child.names)
            visit(child, inside=inside or function)

    visit(tree, inside=False)
    return found


def room(path: Path) -> str:
    return path.relative_to(PACKAGE).parts[0].removesuffix(".py")


FORBIDDEN = {
    "schema": ["pasta."],
    "errors": ["pasta."],
    "registry": ["pasta.collect", "pasta.pipeline", "pasta.tools", "pasta.trace", "pasta.schema"],
    "trace": ["pasta.collect", "pasta.pipeline", "pasta.tools", "pasta.api", "pasta.cli"],
    "trace_writer": ["pasta.collect", "pasta.pipeline", "pasta.tools", "pasta.api", "pasta.cli"],
    "trace_combine": ["pasta.collect", "pasta.pipeline", "pasta.tools", "pasta.api", "pasta.cli"],
    "trace_align": ["pasta.collect", "pasta.pipeline", "pasta.tools", "pasta.api", "pasta.cli"],
    "trace_sql": ["pasta.collect", "pasta.pipeline", "pasta.tools", "pasta.api", "pasta.cli"],
    "trace_join": ["pasta.collect", "pasta.pipeline", "pasta.tools", "pasta.api", "pasta.cli"],
    "exports": ["pasta.collect", "pasta.pipeline", "pasta.tools", "pasta.api", "pasta.cli"],
    "yaml_text": ["pasta.collect", "pasta.pipeline", "pasta.tools", "pasta.api", "pasta.cli"],
    "nesting": ["pasta.collect", "pasta.pipeline", "pasta.tools", "pasta.api", "pasta.cli"],
    "collect": ["pasta.pipeline", "pasta.exports", "pasta.tools", "pasta.api", "pasta.cli"],
    "pipeline": ["pasta.collect", "pasta.exports", "pasta.tools", "pasta.api", "pasta.cli"],
    "tools": ["pasta.collect", "pasta.pipeline.engines", "pasta.api", "pasta.cli"],
    "experiment": ["pasta.pipeline.engines", "pasta.api", "pasta.cli"],
    "system": ["pasta.pipeline.engines", "pasta.exports", "pasta.tools", "pasta.api", "pasta.cli"],
    "api": ["pasta.cli"],
}


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_import_direction(path):
    found = imports(path, top_level_only=False)
    for prefix in FORBIDDEN.get(room(path), []):
        wrong = [name for name in found if (name + ".").startswith(prefix.rstrip(".") + ".")]
        assert not wrong, f"{path.name} imports {wrong}"


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_heavy_libraries_only_inside_functions(path):
    top = {name.partition(".")[0] for name in imports(path, top_level_only=True)}
    assert not top & HEAVY


@pytest.mark.parametrize("path", sorted((PACKAGE / "collect" / "target").glob("*.py")))
def test_target_code_needs_only_the_standard_library(path):
    top = {name.partition(".")[0] for name in imports(path, top_level_only=False)}
    assert top <= set(sys.stdlib_module_names) | {"pasta", "numpy", "__future__"}
    assert not top & DATA - {"numpy"}


@pytest.mark.parametrize("module", ["pasta", "pasta.collect.target.annotate"])
def test_importing_pasta_loads_no_data_library(module):
    loaded = f"import sys, {module}; print(*sorted({{n.partition('.')[0] for n in sys.modules}}))"
    result = subprocess.run([sys.executable, "-c", loaded], capture_output=True, text=True, check=True)  # fmt: skip
    assert not set(result.stdout.split()) & (HEAVY | DATA)


def test_only_the_command_line_prints_or_exits():
    for path in MODULES:
        if room(path) in (
            "cli",
            "cli_collect",
            "cli_experiment",
            "cli_new",
            "cli_regress",
            "cli_report",
            "cli_system",
            "cli_trace",
        ):
            continue
        calls = [
            ast.unparse(node.func)
            for node in ast.walk(ast.parse(path.read_text()))
            if isinstance(node, ast.Call)
        ]
        assert not {"print", "sys.exit", "exit", "quit"} & set(calls), path


def test_modules_and_functions_stay_small():
    for path in MODULES:
        text = path.read_text()
        assert text.count("\n") <= 500, path
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                assert node.end_lineno - node.lineno <= 80, f"{path}: {node.name}"


def test_every_public_name_has_a_docstring():
    missing = []
    for path in MODULES:
        tree = ast.parse(path.read_text())
        assert ast.get_docstring(tree), path
        for node in tree.body:
            public = isinstance(node, ast.FunctionDef | ast.ClassDef)
            if public and not node.name.startswith("_") and not ast.get_docstring(node):
                missing.append(f"{path.relative_to(PACKAGE)}: {node.name}")
    assert not missing


def own_nodes(function: ast.FunctionDef) -> Iterator[ast.AST]:
    """What a function consists of, without the functions and classes that it makes."""
    waiting = list(function.body)
    while waiting:
        node = waiting.pop()
        if not isinstance(node, ast.FunctionDef | ast.Lambda | ast.ClassDef):
            yield node
            waiting += ast.iter_child_nodes(node)


def public_functions(tree: ast.Module) -> Iterator[tuple[ast.FunctionDef, str]]:
    """Public functions, and methods of public classes, each with the docstring that tells of it.

    Commands are left out: their docstring is their help.
    """
    for node in tree.body:
        if isinstance(node, ast.FunctionDef) and not node.name.startswith("_"):
            calls = (ast.unparse(decorator).partition("(")[0] for decorator in node.decorator_list)
            if not any(call.endswith((".command", ".group")) for call in calls):
                yield node, ast.get_docstring(node) or ""
        if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
            for method in node.body:
                if isinstance(method, ast.FunctionDef) and not PRIVATE.match(method.name):
                    magic = method.name.startswith("__")
                    told = ast.get_docstring(method) or (magic and ast.get_docstring(node))
                    yield method, told or ""


def test_public_functions_tell_which_errors_they_raise():
    untold = []
    for path in MODULES:
        for function, told in public_functions(ast.parse(path.read_text())):
            raises = (node for node in own_nodes(function) if isinstance(node, ast.Raise))
            raised = {getattr(node.exc, "func", node.exc) for node in raises}
            names = {node.id for node in raised if isinstance(node, ast.Name)} - {"error"}
            untold += [f"{path}: {function.name}: {name}" for name in names if name not in told]
    assert not untold
