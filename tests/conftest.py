"""Fixtures shared by all tests."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hypothesis import settings

from pasta.testing import write_trace
from pasta.trace import Trace

ROOT = Path(__file__).parent.parent

settings.register_profile("pasta", deadline=None, derandomize=True)
settings.register_profile("search", deadline=None)
settings.load_profile(
    "pasta"
)  # the same examples in every run; others: --hypothesis-profile=search


@pytest.fixture(scope="session")
def samples() -> Path:
    """The folder of real traces; tests that use it are skipped where it is absent."""
    folder = Path(os.environ.get("PASTA_SAMPLES", ROOT.parent / "shared" / "samples"))
    if not folder.is_dir():
        pytest.skip(f"no sample traces at {folder}; set PASTA_SAMPLES to their folder")
    return folder


@pytest.fixture(scope="session", autouse=True)
def _own_cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Keep imports out of the user's cache."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PASTA_CACHE", str(tmp_path_factory.mktemp("cache")))
        yield


TraceMaker = Callable[..., Trace]


@pytest.fixture
def make_trace(tmp_path: Path) -> TraceMaker:
    """A function that writes a small trace from rows given as dicts: `make_trace(kernel=[...])`."""

    def make(name: str = "t", **tables: list[dict[str, object]]) -> Trace:
        return write_trace(tmp_path / name, **tables)

    return make


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Skip what needs an NVIDIA GPU on machines without one."""
    if item.get_closest_marker("gpu") and not Path("/dev/nvidiactl").exists():
        pytest.skip("there is no NVIDIA GPU on this machine")
