"""The launcher's side of `cuda.memory`, and its part in programs: without a GPU."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import pasta
from pasta.collect import cuda_memory
from pasta.collect.cuda_memory import MemoryOptions
from pasta.collect.target import device_memory
from pasta.collect.target.device_memory import RECORD, DeviceMemory
from pasta.errors import CollectError


def test_defaults_tell_the_library_nothing():
    assert MemoryOptions().in_program() == {}


def test_options_are_told_as_text():
    options = MemoryOptions(
        granularity=32,
        block=2 << 20,
        launches="1:9:2",
        blocks=":7",
        every_space=True,
        tensor_loads="none",
        switched=True,
        instructions=True,
        events=True,
        within="^step",
        serial=True,
        device_bytes=8 << 20,
    )
    assert options.in_program() == {
        "granularity": "32",
        "block": "2097152",
        "launches": "1:9:2",
        "blocks": ":7",
        "spaces": "all",
        "tensor_loads": "none",
        "patches": "switched",
        "instructions": "yes",
        "events": "yes",
        "range": "^step",
        "serial": "yes",
        "device_bytes": "8388608",
    }


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"granularity": 16}, "--granularity 16: expected a power of two from 32 to 2M"),
        ({"granularity": 4 << 20}, "--granularity 4194304: expected a power of two"),
        ({"granularity": 768}, "--granularity 768: expected a power of two"),
        ({"block": 1000}, "--block 1000: expected a power of two"),
        ({"block": 256}, "--block 256: may not be smaller than --granularity"),
        ({"block": 2048, "granularity": 4096}, "--block 2048: may not be smaller"),
        ({"tensor_loads": "no"}, "--tensor-loads no: expected one of mapped, watched, none"),
        ({"launches": "5"}, "--launches 5: expected FIRST:LAST:EVERY, counted from 0"),
        ({"launches": "1:5:0"}, "--launches 1:5:0: expected FIRST:LAST:EVERY"),
        ({"launches": "-1:5"}, "--launches -1:5: expected FIRST:LAST:EVERY"),
        ({"launches": "9:5:2"}, "--launches 9:5:2: selects nothing"),
        ({"blocks": "1:5:2"}, "--blocks 1:5:2: expected FIRST:LAST, counted from 0"),
        ({"blocks": "2:1"}, "--blocks 2:1: selects nothing"),
        ({"device_bytes": (8 << 20) - 1}, "--device-memory 8388607: at least 8M is needed"),
    ],
)
def test_options_that_cannot_be(options, message):
    with pytest.raises(CollectError, match=message):
        MemoryOptions(**options)


def test_without_compute_sanitizer_the_error_says_what_to_install(monkeypatch):
    monkeypatch.setattr(cuda_memory, "find_sanitizer", lambda: None)
    with pytest.raises(
        CollectError, match="install nvidia-cuda-sanitizer-api, or the CUDA toolkit"
    ):
        cuda_memory.environment()


def test_the_environment_loads_library_and_patches(monkeypatch):
    monkeypatch.setattr(cuda_memory, "find_sanitizer", lambda: Path("lib/sanitizer.so"))
    monkeypatch.setattr(cuda_memory, "memory_library", lambda: "memory.so")
    monkeypatch.setattr(cuda_memory, "memory_patches", lambda: "memory.fatbin")
    assert cuda_memory.environment() == {
        "CUDA_INJECTION64_PATH": "memory.so",
        "NVTX_INJECTION64_PATH": "memory.so",
        "PASTA_PATCHES": "memory.fatbin",
        "PASTA_SANITIZER": str(Path("lib/sanitizer.so")),
    }


class Library:
    def __init__(self) -> None:
        self.told: list[int] = []

    def pasta_memory_record(self, on: int) -> None:
        self.told.append(on)


def test_recording_is_told_to_a_library_that_is_loaded_and_one_that_comes_later(monkeypatch):
    monkeypatch.delenv(RECORD, raising=False)
    loaded: list[Library] = []
    monkeypatch.setattr(device_memory, "_loaded", lambda: loaded[0] if loaded else None)
    collector = DeviceMemory()
    assert os.environ[RECORD] == "0"
    collector.start()
    assert os.environ[RECORD] == "1"
    loaded.append(Library())
    collector.stop()
    collector.start()
    collector.stop()
    collector.forked()
    collector.close()
    assert loaded[0].told == [0, 1, 0]
    assert os.environ[RECORD] == "0"


@pytest.mark.parametrize("path", [None, "/nowhere/memory.so"])
def test_a_library_that_cuda_has_not_loaded_is_not_told(monkeypatch, path):
    monkeypatch.setenv(RECORD, "0")
    monkeypatch.delenv("CUDA_INJECTION64_PATH", raising=False)
    if path:
        monkeypatch.setenv("CUDA_INJECTION64_PATH", path)
    DeviceMemory().start()
    assert os.environ[RECORD] == "1"


@pytest.fixture
def stand_ins(tmp_path):
    """The environment of a launcher for which all parts of the collector are there, by name."""
    parts = tmp_path / "parts.py"
    parts.write_text(
        "from pasta.collect import cuda_memory\n"
        "from pathlib import Path\n"
        "cuda_memory.find_sanitizer = lambda: Path('sanitizer.so')\n"
        "cuda_memory.memory_library = lambda: 'memory.so'\n"
        "cuda_memory.memory_patches = lambda: 'memory.fatbin'\n"
        "from pasta.cli import main\n"
        "main()\n"
    )
    return parts


def test_a_program_without_cuda_runs_and_the_user_is_told(stand_ins, tmp_path):
    program = [shutil.which("echo") or "echo", "done"]
    arguments = [
        "collect",
        "--with",
        "cuda.memory",
        "--match",
        r"gemm\d+",
        "-o",
        tmp_path / "t",
        "--",
    ]
    command = [sys.executable, stand_ins, *arguments, *program]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, "done\n"), done.stderr
    assert "Traceback" not in done.stderr
    assert "no kernel was recorded" in done.stderr
    trace = pasta.open(tmp_path / "t")
    assert not trace.files("kernel")
    assert not trace.files("touch")
