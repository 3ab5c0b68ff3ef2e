"""Addresses become functions, also of processes that are gone."""

import ctypes
import mmap
import os
import subprocess
import sys
from pathlib import Path

import pytest

from pasta.collect.ebpf.elf_file import ElfFile
from pasta.collect.ebpf.native_names import NativeNames
from pasta.collect.ebpf.stack_texts import StackTexts
from pasta.collect.losses import Losses
from pasta.trace import Trace
from pasta.trace_writer import TraceWriter
from tests.collect.ebpf.machine import compiled


def address_of(name: str) -> int:
    return ctypes.cast(getattr(ctypes.CDLL(None), name), ctypes.c_void_p).value or 0


def test_a_function_of_a_library_has_its_name():
    (frame,) = NativeNames().frames(os.getpid(), [address_of("getpid")])
    assert frame.function.endswith("getpid")
    assert "libc.so" in frame.library


def test_a_caller_is_found_by_the_call_before_the_address():
    """A return address may be the first byte of the next function."""
    names, at = NativeNames(), address_of("getpid")
    caller, _ = names.frames(os.getpid(), [at, at])
    assert not caller.function.endswith("getpid")


def test_a_fork_that_is_gone_has_the_names_of_its_parent():
    names = NativeNames()
    names.frames(os.getpid(), [address_of("getpid")])
    child = os.fork()
    if child == 0:
        os._exit(0)
    os.waitpid(child, 0)
    names.forked(os.getpid(), child)
    (frame,) = names.frames(child, [address_of("getpid")])
    assert frame.function.endswith("getpid")


def test_an_unknown_process_has_addresses():
    assert [frame.function for frame in NativeNames().frames(1 << 30, [0x1234])] == ["0x1234"]


def test_addresses_where_no_code_is_are_left_out():
    names = NativeNames()
    assert len(names.frames(os.getpid(), [8, address_of("getpid")])) == 1


def test_functions_of_a_program(tmp_path):
    program = ElfFile(compiled("int one(void){return 1;} int main(void){return one();}", tmp_path))
    functions = program.functions()
    assert {"one", "main"} <= functions.keys()
    assert program.function_at(functions["one"] + 1) == "one"
    assert len(program.code(functions["one"], 4)) == 4


@pytest.mark.parametrize("content", [b"", b"\x7fELF", b"\x7fELF\x02\x01" + b"\xff" * 58])
def test_what_is_no_elf_file_is_said(tmp_path, content):
    (tmp_path / "file").write_bytes(content)
    with pytest.raises(ValueError, match="ELF"):
        ElfFile(tmp_path / "file")


def test_a_stack_has_the_kernels_frames_innermost(tmp_path):
    writer = TraceWriter(tmp_path / "t", {})
    part, losses = writer.part(), Losses("offcpu")
    texts = StackTexts(part, losses, "offcpu")
    lines = [
        "\tffffffff821f8b58 __schedule+1560",
        f"\t{address_of('getpid'):x} 0x7f ([unknown])",
        "\tc3c0310375400000 0xc3c0310375400000 ([unknown])",
    ]
    number = texts.stack_id(os.getpid(), lines)
    assert texts.stack_id(os.getpid(), lines) == number > 0
    assert texts.stack_id(os.getpid(), []) == 0
    texts.flush()
    part.finish()
    writer.finish()
    frames = Trace.open(tmp_path / "t").scan("frame").collect().sort("depth")
    assert frames["function"].to_list()[1] == "__schedule"
    assert frames["function"].to_list()[0].endswith("getpid")
    assert frames.height == 2
    assert sum(loss.count for loss in losses) == 1


def test_python_names_what_it_compiled():
    """Code in memory of no file has the name that its process tells in its map."""
    code = mmap.mmap(-1, 4096, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
    first = ctypes.c_char.from_buffer(code)
    address = ctypes.addressof(first)
    told = Path(f"/tmp/perf-{os.getpid()}.map")
    told.write_text(f"{address:x} 40 py::train:/a/model.py\n")
    try:
        (frame,) = NativeNames().frames(os.getpid(), [address + 3])
    finally:
        told.unlink()
        del first
        code.close()
    assert (frame.function, frame.file, frame.language) == ("train", "/a/model.py", "python")


PIPE = """
import os
from pasta.collect.ebpf.native_names import _Compiled
told = f"/tmp/perf-{os.getpid()}.map"
os.mkfifo(told)
try:
    print(_Compiled.of(os.getpid()))
finally:
    os.unlink(told)
"""


def test_a_pipe_in_the_place_of_what_a_process_tells_is_not_waited_for():
    asking = [sys.executable, "-c", PIPE]
    done = subprocess.run(asking, timeout=300, check=True, capture_output=True, text=True)
    assert done.stdout == "None\n"
