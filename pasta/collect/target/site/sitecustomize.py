"""Run by every Python process of a recorded command, first of all: it is put on PYTHONPATH.

It costs a process that imports neither torch nor pasta nothing but a look at the names of its
imports, unless its stacks are to be sampled. It takes its folder off the path again and runs the `sitecustomize` that it stands before.
"""

from __future__ import annotations

import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_HERE = os.path.dirname(os.path.abspath(__file__))
_WATCHED = {"torch", "pasta"}


class _Watcher:
    """Lets recording begin around the import of the modules that are watched."""

    @staticmethod
    def find_spec(name: str, path: Any = None, target: Any = None) -> Any:
        """Find nothing but the modules that are watched, as others would, and wrap their loader."""
        begin = _load_target("begin") if name in _WATCHED else None
        if begin is None:
            return None
        begin.begin()
        finders: list[Any] = list(sys.meta_path)
        for finder in finders:
            spec = None if finder is _Watcher else finder.find_spec(name, path, target)
            if spec is not None:
                if spec.loader is not None:  # a namespace package has none
                    _tell_after(spec.loader, name, begin.after_import)
                return spec
        return None


def _tell_after(loader: Any, name: str, tell: Any) -> None:
    """Let `loader` call `tell` once it has run the module, which many a program only looks for."""
    execute = loader.exec_module

    def execute_and_tell(module: object) -> None:
        execute(module)
        if name in _WATCHED:
            _WATCHED.discard(name)
            tell(name)

    loader.exec_module = execute_and_tell


def _load_target(module: str) -> Any:
    """Load a module of the folder above, `pasta_target`, also where this Python has no pasta; `None`: fails."""
    import importlib
    import importlib.util

    folder = os.path.dirname(_HERE)
    try:
        if "pasta_target" not in sys.modules:
            spec = importlib.util.spec_from_file_location(
                "pasta_target",
                os.path.join(folder, "__init__.py"),
                submodule_search_locations=[folder],
            )
            sys.modules["pasta_target"] = importlib.util.module_from_spec(spec)  # type: ignore[arg-type]
        return importlib.import_module(f"pasta_target.{module}")
    except Exception:  # noqa: BLE001 - whatever it is, the program must go on
        return None


def _begin_sampling() -> None:
    sampling = _load_target("sampling")
    if sampling is not None:
        sampling.begin()


def _run_next() -> None:
    """Run the `sitecustomize` that would have run without this one."""
    import importlib.machinery
    import importlib.util

    sys.path[:] = [place for place in sys.path if place != _HERE]
    spec = importlib.machinery.PathFinder.find_spec("sitecustomize", sys.path)
    if spec is not None and spec.loader is not None:
        module = importlib.util.module_from_spec(spec)
        sys.modules["sitecustomize"] = module
        spec.loader.exec_module(module)


def _forget_environment() -> None:
    """Keep from this process's children what has no meaning any more: the channel is gone."""
    for name in ("PASTA_CHANNEL", "PASTA_COLLECT", "PASTA_SAMPLER"):
        os.environ.pop(name, None)
    places = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    rest = os.pathsep.join(place for place in places if place != _HERE)
    if rest:
        os.environ["PYTHONPATH"] = rest
    else:
        os.environ.pop("PYTHONPATH", None)


try:
    if os.path.isdir(os.environ.get("PASTA_CHANNEL", "")):
        sys.meta_path.insert(0, _Watcher)
        if "PASTA_SAMPLER" in os.environ:
            _begin_sampling()
    else:
        _forget_environment()
finally:
    _run_next()
