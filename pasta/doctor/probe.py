"""Looks into vendors' libraries, in a process of its own: they may crash, hang or print.

`python -m pasta.doctor.probe nvml`, or `cupti LIBRARY`, writes one line of JSON.
"""

from __future__ import annotations

import ctypes
import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from pasta.collect.nvml.library import NAME, Library, NvmlError

_PACKAGES = Path(__file__).parents[2]
_SECONDS = 60
_TEXT_BYTES = 96
_DRIVER = "libcuda.so.1"
_CALLBACK = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int, ctypes.c_uint, ctypes.c_void_p)


def probe(*arguments: str, seconds: float = _SECONDS) -> dict[str, Any]:
    """Run this module on `arguments` in a child that has this process's environment.

    Returns:
        What `nvml` or `cupti` return, or `error`: why there is no answer.
    """
    path = os.pathsep.join(filter(None, [str(_PACKAGES), os.environ.get("PYTHONPATH", "")]))
    try:
        done = subprocess.run(  # noqa: S603 - this Python on this module
            [sys.executable, "-m", __name__, *arguments],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
            timeout=seconds,
            env={**os.environ, "PYTHONPATH": path},
        )
    except subprocess.TimeoutExpired:
        return {"error": f"no answer in {seconds:g} s"}
    for line in reversed(done.stdout.splitlines()):
        if line.startswith("{"):
            answer: dict[str, Any] = json.loads(line)
            return answer
    return {"error": f"the process that asked ended with exit code {done.returncode}"}


def nvml(path: str = NAME) -> dict[str, Any]:
    """Return what NVML says.

    Returns:
        `driver`: its version; `cuda`: the newest CUDA that it serves, as `13.0`; `cards`: columns
        of the table `device` for each card. Or `error`.
    """
    version, cuda = ctypes.create_string_buffer(_TEXT_BYTES), ctypes.c_int()
    try:
        library = Library(path)
        library.call("nvmlSystemGetDriverVersion", version, _TEXT_BYTES)
        library.call("nvmlSystemGetCudaDriverVersion_v2", ctypes.byref(cuda))
        cards = [card.about() for card in library.cards()]
    except (OSError, NvmlError) as error:
        return {"error": str(error)}
    served = f"{cuda.value // 1000}.{cuda.value % 1000 // 10}"
    return {"driver": version.value.decode(errors="replace"), "cuda": served, "cards": cards}


def cupti(path: str, driver: str = _DRIVER) -> dict[str, Any]:
    """Return whether CUPTI serves a program that is started as this one was.

    Returns:
        `version`: CUPTI's number, absent where it tells none; `cuda`: why CUDA does not start;
        where it does, `refused`: why CUPTI takes no subscriber, empty where it takes one. Or
        `error`: it cannot be loaded.
    """
    try:
        library = ctypes.CDLL(path)
    except OSError as error:
        return {"error": str(error)}
    answer: dict[str, Any] = {}
    version = ctypes.c_uint()
    if library.cuptiGetVersion(ctypes.byref(version)) == 0:
        answer["version"] = version.value
    answer["cuda"] = _start_cuda(driver)
    if not answer["cuda"]:
        answer["refused"] = _subscribe(library)
    return answer


def _start_cuda(path: str) -> str:
    """Start CUDA; return why it does not start."""
    try:
        code = ctypes.CDLL(path).cuInit(0)
    except OSError as error:
        return str(error)
    return f"cuInit gives error {code}" if code else ""


def _subscribe(library: ctypes.CDLL) -> str:
    subscriber, callback = ctypes.c_void_p(), _CALLBACK(lambda *_arguments: None)
    code = library.cuptiSubscribe(ctypes.byref(subscriber), callback, None)
    if code == 0:
        library.cuptiUnsubscribe(subscriber)
        return ""
    text = ctypes.c_char_p()
    library.cuptiGetResultString(code, ctypes.byref(text))
    return (text.value or b"error %d" % code).decode(errors="replace")


_ANSWERS: dict[str, Callable[..., dict[str, Any]]] = {"nvml": nvml, "cupti": cupti}

if __name__ == "__main__":
    sys.stdout.write(f"\n{json.dumps(_ANSWERS[sys.argv[1]](*sys.argv[2:]))}\n")
