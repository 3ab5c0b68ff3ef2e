"""The native hook of level `operators`: built once against the program's PyTorch, and loaded.

It is a library of C++ (`pasta/collect/native/torch_operators.cpp`) without Python in it: it needs
a C++ compiler and PyTorch's own headers, no more, and is called through `ctypes`.
"""

# ruff: noqa: SLF001 - PyTorch has no public names for what is needed here

from __future__ import annotations

import contextlib
import ctypes
import fcntl
import functools
import hashlib
import os
import platform
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from typing import Any

_NATIVE = os.path.join(os.path.dirname(__file__), *[os.pardir] * 2, "native")
_SOURCE = "torch_operators.cpp"
_FLAGS = ("-std=c++20", "-O2", "-fPIC", "-shared", "-w")
_BUILD_SECONDS = 600
_COMPILING = "pasta: compiling the native hook of the PyTorch collector, once for this PyTorch\n"
_COUNTERS = ("events", "rows", "callback_ns", "dropped", "failures", "texts_refused")
_BEGINNINGS = ("_enable_profiler", "_enable_profiler_legacy")


class NativeOperators:
    """Records operators and memory into a ring of the channel, on all threads.

    Not for several threads at once; the calls let go of Python's lock.

    Args:
        path: the library.

    Raises:
        OSError: it cannot be loaded.
    """

    def __init__(self, path: str) -> None:
        self._library = ctypes.CDLL(path)
        self._library.pasta_operators_start.argtypes = [
            ctypes.c_char_p,
            ctypes.c_int32,
            ctypes.c_int64,
            ctypes.c_int,
        ]
        self._profilers = contextlib.ExitStack()

    def start(self, folder: str, rank: int, offset_ns: int) -> None:
        """Record from here on, until `stop`; in a forked child, anew.

        Args:
            folder: the channel's folder.
            rank: rank of this process.
            offset_ns: added to the monotonic clock to give the trace's.

        Raises:
            OSError: there is no channel, or no room; or it records already (`EALREADY`).
        """
        devices = _has_devices()
        failed = self._library.pasta_operators_start(
            os.fsencode(folder), rank, offset_ns, int(devices)
        )
        if failed:
            raise OSError(failed, os.strerror(failed), folder)
        self._profilers.close()
        if devices:
            leave = self._library.pasta_operators_leave_thread
            self._profilers.enter_context(_before_profilers(leave))

    def pause(self) -> None:
        """Record no more until `resume`, at no cost to operators, as a forked child may wish too.

        On the CPU, the release of memory whose allocation was recorded is recorded still.
        """
        self._library.pasta_operators_pause()

    def resume(self) -> None:
        """Record again after `pause`."""
        self._library.pasta_operators_resume()

    def flush(self) -> None:
        """Write what waits now; it happens every 100 ms anyway."""
        self._library.pasta_operators_flush()

    def stop(self) -> None:
        """Write what waits and end the recording."""
        self._library.pasta_operators_stop()
        self._profilers.close()

    def counters(self) -> dict[str, int]:
        """Return what was counted since `start`, empty where nothing records.

        Returns:
            `events`, operators that began; `rows` written; `callback_ns`, time spent on operators,
            from every 64th; `dropped`, rows for which the ring had no room; `failures`, events that
            could not be recorded; `texts_refused`, shapes left out as too many differ.
        """
        values = (ctypes.c_uint64 * len(_COUNTERS))()
        if self._library.pasta_operators_counters(values):
            return {}
        return dict(zip(_COUNTERS, values, strict=True))


def load() -> tuple[NativeOperators | None, str]:
    """Return the native hook, built if need be, or `None` and why there is none, in one line."""
    path, reason = build()
    if path is None:
        return None, reason
    try:
        return NativeOperators(path), ""
    except OSError as error:
        return None, f"the native hook does not load: {error}"


def build() -> tuple[str | None, str]:
    """Build the library unless it is in the cache; processes that need it at once build it once.

    Returns:
        Its path, or `None` and the reason in one line.
    """
    try:
        folder = cache_folder()
        os.makedirs(folder, exist_ok=True)
        name = os.path.join(folder, f"torch_operators-{_digest()}")
        library, failure = f"{name}.so", f"{name}.failed"
        with _only_one(f"{name}.lock"):
            if not os.path.exists(library) and not os.path.exists(failure):
                sys.stderr.write(_COMPILING)
                _compile(library, failure)
        if os.path.exists(library):
            return library, ""
        with open(failure, encoding="utf-8") as file:
            return None, f"{file.read().strip()} (remove {failure} to try again)"
    except (OSError, subprocess.SubprocessError) as error:
        return None, f"the native hook was not built: {error}"


def cache_folder() -> str:
    """Return where built libraries are kept, which may be absent."""
    given = os.environ.get("PASTA_CACHE")
    if given:
        return given
    home = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    return os.path.join(home, "pasta")


def _digest() -> str:
    """Return what tells apart libraries that differ: PyTorch, sources, flags, machine."""
    import torch

    digest = hashlib.sha256()
    about = (torch.__version__, torch.__file__, platform.machine(), *_FLAGS, *_as_torch_was_built())
    digest.update(repr(about).encode())
    for name in sorted(os.listdir(_NATIVE)):
        if name.endswith((".h", ".cpp")):
            with open(os.path.join(_NATIVE, name), "rb") as file:
                digest.update(file.read())
    return digest.hexdigest()[:20]


def _as_torch_was_built() -> list[str]:
    """Return the macros on which the layout of PyTorch's and the library's classes depends."""
    import torch

    strings = f"-D_GLIBCXX_USE_CXX11_ABI={int(torch.compiled_with_cxx11_abi())}"
    return [strings] if torch.version.debug else [strings, "-DNDEBUG"]


@contextlib.contextmanager
def _only_one(path: str) -> Iterator[None]:
    """Let one process at a time into the block, where the file system has locks."""
    with open(path, "ab") as file:
        with contextlib.suppress(OSError):
            fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _compile(library: str, failure: str) -> None:
    """Make `library`, or the file `failure` with the reason; either is there whole or not at all."""
    compiler = _compiler()
    if compiler is None:
        raise OSError("there is no C++ compiler: install g++ or clang++, or set CXX")
    if not os.path.isdir(_torch_folder("include")):
        raise OSError("this PyTorch has no headers")
    made, product = tempfile.mkstemp(suffix=".so", dir=os.path.dirname(library))
    os.close(made)
    try:
        done = subprocess.run(  # noqa: S603 - the user's compiler on pasta's source
            [*compiler, *_arguments(), "-o", product],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            check=False,
            timeout=_BUILD_SECONDS,
        )
        if done.returncode == 0:
            os.rename(product, library)
            return
        _write_whole(failure, _first_error(done.stderr.decode(errors="replace")))
    finally:
        with contextlib.suppress(FileNotFoundError):
            os.remove(product)


def _compiler() -> list[str] | None:
    given = os.environ.get("CXX", "").split()
    if given:
        return given if shutil.which(given[0]) else None
    found = next(filter(None, map(shutil.which, ("c++", "g++", "clang++"))), None)
    return [found] if found else None


def _arguments() -> list[str]:
    include = _torch_folder("include")
    headers = (include, os.path.join(include, "torch", "csrc", "api", "include"))
    return [
        *_FLAGS,
        *_as_torch_was_built(),
        *(part for folder in headers for part in ("-isystem", folder)),
        os.path.join(_NATIVE, _SOURCE),
        f"-L{_torch_folder('lib')}",
        "-ltorch_cpu",
        "-lc10",
        "-pthread",
    ]


def _torch_folder(name: str) -> str:
    import torch

    return os.path.join(os.path.dirname(torch.__file__), name)


def _first_error(output: str) -> str:
    lines = output.splitlines()
    error = next((line for line in lines if "error" in line), "the compiler failed without a word")
    return f"the native hook does not compile: {error}"


def _write_whole(path: str, text: str) -> None:
    made, temporary = tempfile.mkstemp(dir=os.path.dirname(path))
    with open(made, "w", encoding="utf-8") as file:
        file.write(text)
    os.rename(temporary, path)


def _has_devices() -> bool:
    """Whether this PyTorch was built for any accelerator, present or not."""
    import torch

    return torch.accelerator.current_accelerator(check_available=False) is not None


@contextlib.contextmanager
def _before_profilers(leave: Callable[[], Any]) -> Iterator[None]:
    """Call `leave` on the thread on which a profiler of the program is about to begin."""
    import torch
    from torch.autograd import profiler

    replaced: list[tuple[Any, str, Any, Any]] = []
    for module in (torch._C._autograd, torch.autograd, profiler):
        for name in _BEGINNINGS:
            original = getattr(module, name, None)
            if original is not None:
                ours = _after(leave, original)
                setattr(module, name, ours)
                replaced.append((module, name, ours, original))
    try:
        yield
    finally:
        for module, name, ours, original in replaced:
            if getattr(module, name) is ours:
                setattr(module, name, original)


def _after(first: Callable[[], Any], function: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(function)
    def both(*args: Any, **kwargs: Any) -> Any:
        first()
        return function(*args, **kwargs)

    return both
