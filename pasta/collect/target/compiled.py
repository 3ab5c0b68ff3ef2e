"""Native parts of pasta, compiled on the machine that runs them, once, and kept in a cache."""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence

NATIVE = os.path.normpath(os.path.join(os.path.dirname(__file__), os.pardir, "native"))
_FLAGS = ("-std=c++20", "-O2", "-fPIC", "-shared", "-w")
_BUILD_SECONDS = 600


def compiled(
    source: str, arguments: Sequence[str], about: Sequence[str], what: str
) -> tuple[str | None, str]:
    """Compile a library unless it is in the cache; processes that need it at once do so once.

    A line on the error stream announces that it takes a while. A compilation that fails is not
    tried again until the file that says why is removed.

    Args:
        source: file in the folder of native sources.
        arguments: of the compiler, beside those that every library has.
        about: what else tells apart libraries that differ, as versions.
        what: what is compiled, for people.

    Returns:
        The library's path, or `None` and the reason in one line.
    """
    try:
        folder = cache_folder()
        os.makedirs(folder, exist_ok=True)
        digest = _digest([*arguments, *about])
        name = os.path.join(folder, f"{os.path.splitext(source)[0]}-{digest}")
        library, failure = f"{name}.so", f"{name}.failed"
        with _only_one(f"{name}.lock"):
            if not os.path.exists(library) and not os.path.exists(failure):
                _compile(source, arguments, library, failure, what)
        if os.path.exists(library):
            return library, ""
        with open(failure, encoding="utf-8") as file:
            return None, f"{file.read().strip()} (remove {failure} to try again)"
    except (OSError, subprocess.SubprocessError) as error:
        return None, f"{what} was not compiled: {error}"


def cache_folder() -> str:
    """Return where compiled libraries are kept, which may be absent."""
    given = os.environ.get("PASTA_CACHE")
    if given:
        return given
    home = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    return os.path.join(home, "pasta")


def _digest(about: Sequence[str]) -> str:
    digest = hashlib.sha256(repr((os.uname().machine, _FLAGS, about)).encode())
    for name in sorted(os.listdir(NATIVE)):
        if name.endswith((".h", ".cpp")):
            with open(os.path.join(NATIVE, name), "rb") as file:
                digest.update(file.read())
    return digest.hexdigest()[:20]


@contextlib.contextmanager
def _only_one(path: str) -> Iterator[None]:
    """Let one process at a time into the block, where the file system has locks."""
    with open(path, "ab") as file:
        with contextlib.suppress(OSError):
            fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _compile(source: str, arguments: Sequence[str], library: str, failure: str, what: str) -> None:
    """Make `library`, or the file `failure` with the reason; either is there whole or not at all."""
    compiler = _compiler()
    if compiler is None:
        raise OSError("there is no C++ compiler: install g++ or clang++, or set CXX")
    sys.stderr.write(f"pasta: compiling {what}, once on this machine\n")
    made, product = tempfile.mkstemp(suffix=".so", dir=os.path.dirname(library))
    os.close(made)
    try:
        done = subprocess.run(  # noqa: S603 - the user's compiler on pasta's source
            [*compiler, *_FLAGS, os.path.join(NATIVE, source), *arguments, "-o", product],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            check=False,
            timeout=_BUILD_SECONDS,
        )
        if done.returncode == 0:
            os.rename(product, library)
            return
        error = _first_error(done.stderr.decode(errors="replace"))
        _write_whole(failure, f"{what} does not compile: {error}")
    finally:
        with contextlib.suppress(FileNotFoundError):
            os.remove(product)


def _compiler() -> list[str] | None:
    given = os.environ.get("CXX", "").split()
    if given:
        return given if shutil.which(given[0]) else None
    found = next(filter(None, map(shutil.which, ("c++", "g++", "clang++"))), None)
    return [found] if found else None


def _first_error(output: str) -> str:
    lines = output.splitlines()
    return next((line for line in lines if "error" in line), "the compiler failed without a word")


def _write_whole(path: str, text: str) -> None:
    made, temporary = tempfile.mkstemp(dir=os.path.dirname(path))
    with open(made, "w", encoding="utf-8") as file:
        file.write(text)
    os.rename(temporary, path)
