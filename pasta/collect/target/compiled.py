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
from collections.abc import Callable, Iterator, Sequence

NATIVE = os.path.normpath(os.path.join(os.path.dirname(__file__), os.pardir, "native"))
_FLAGS = ("-std=c++20", "-O2", "-fPIC", "-shared", "-w")
_BUILD_SECONDS = 600


def compiled(
    source: str, arguments: Sequence[str], about: Sequence[str], what: str
) -> tuple[str | None, str]:
    """Compile a library of C++ unless it is in the cache.

    Args:
        source: file in the folder of native sources.
        arguments: of the compiler, beside those that every library has.
        about: what else tells apart libraries that differ, as versions.
        what: what is compiled, for people.

    Returns:
        The library's path, or `None` and the reason in one line.
    """

    def command() -> list[str]:
        found = compiler()
        if not found:
            raise OSError("there is no C++ compiler: install g++ or clang++, or set CXX")
        return [*found, *_FLAGS, os.path.join(NATIVE, source), *arguments]

    return made_once(source, ".so", command, [*arguments, *about], what)


def made_once(
    source: str,
    suffix: str,
    command: Callable[[], Sequence[str]],
    about: Sequence[str],
    what: str,
) -> tuple[str | None, str]:
    """Run a compiler unless its product is in the cache; processes that need it at once do so once.

    A line on the error stream announces that it takes a while. A compilation that fails is not
    tried again until the file that says why is removed.

    Args:
        source: file in the folder of native sources.
        suffix: of the product's name.
        command: gives the compiler and its arguments, without those that name the product; raises
            `OSError` where there is no compiler. Called only where something is compiled.
        about: what tells apart products that differ, beside the source and the headers.
        what: what is compiled, for people.

    Returns:
        The product's path, or `None` and the reason in one line.
    """
    product, failure = kept(source, suffix, about)
    try:
        os.makedirs(cache_folder(), exist_ok=True)
        with _only_one(f"{os.path.splitext(product)[0]}.lock"):
            if not os.path.exists(product) and not os.path.exists(failure):
                _compile(command(), product, failure, what)
        if os.path.exists(product):
            return product, ""
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


def kept(source: str, suffix: str, about: Sequence[str]) -> tuple[str, str]:
    """Return the files of `made_once`, which may be absent: the product, and why there is none."""
    digest = hashlib.sha256(repr((os.uname().machine, _FLAGS, list(about))).encode())
    for name in sorted(os.listdir(NATIVE)):
        if name.endswith(".h") or name == source:
            with open(os.path.join(NATIVE, name), "rb") as file:
                digest.update(file.read())
    stem = f"{os.path.splitext(source)[0]}-{digest.hexdigest()[:20]}"
    path = os.path.join(cache_folder(), stem)
    return f"{path}{suffix}", f"{path}.failed"


@contextlib.contextmanager
def _only_one(path: str) -> Iterator[None]:
    """Let one process at a time into the block, where the file system has locks."""
    with open(path, "ab") as file:
        with contextlib.suppress(OSError):
            fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _compile(command: Sequence[str], product: str, failure: str, what: str) -> None:
    """Make `product`, or the file `failure` with the reason; either is there whole or not at all."""
    sys.stderr.write(f"pasta: compiling {what}, once on this machine\n")
    suffix = os.path.splitext(product)[1]
    made, unfinished = tempfile.mkstemp(suffix=suffix, dir=os.path.dirname(product))
    os.close(made)
    try:
        done = subprocess.run(  # noqa: S603 - the user's compiler on pasta's source
            [*command, "-o", unfinished],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            check=False,
            timeout=_BUILD_SECONDS,
        )
        if done.returncode == 0:
            os.rename(unfinished, product)
            return
        error = _first_error((done.stderr + done.stdout).decode(errors="replace"))
        _write_whole(failure, f"{what} does not compile: {error}")
    finally:
        with contextlib.suppress(FileNotFoundError):
            os.remove(unfinished)


def compiler() -> list[str]:
    """Return the C++ compiler's command, the user's `CXX` first; empty: there is none."""
    given = os.environ.get("CXX", "").split()
    if given:
        return given if shutil.which(given[0]) else []
    found = next(filter(None, map(shutil.which, ("c++", "g++", "clang++"))), None)
    return [found] if found else []


def _first_error(output: str) -> str:
    lines = output.splitlines()
    told = next((line for line in lines if "error" in line or "fatal" in line), None)
    return told or "the compiler failed without a word"


def _write_whole(path: str, text: str) -> None:
    made, temporary = tempfile.mkstemp(dir=os.path.dirname(path))
    with open(made, "w", encoding="utf-8") as file:
        file.write(text)
    os.rename(temporary, path)
