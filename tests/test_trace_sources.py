"""Packing sources: only what frames name, only source code, only where it was recorded."""

from __future__ import annotations

import datetime
import hashlib
import json
import os
import socket
import sys

import pytest

import pasta
from pasta.api import pack_sources
from pasta.cli import main
from pasta.errors import TraceError
from pasta.trace_sources import pack_sources as pack


@pytest.fixture
def folder(tmp_path):
    """A folder of files that are older than any trace."""
    home = tmp_path / "code"
    home.mkdir()
    return home


def file(folder, name, content):
    path = folder / name
    path.write_bytes(content)
    os.utime(path, (1_000_000, 1_000_000))
    return str(path)


def recorded(make_trace, *files, host=None, **tables):
    """A trace of this machine whose stacks name `files`, each once more than the next."""
    frames = [
        {"stack_id": number, "depth": 0, "function": "f", "file": path, "line": 1, "language": "python", "library": ""}
        for place, path in enumerate(files)
        for number in range(1 + 10 * place, 1 + 10 * place + len(files) - place)
    ]  # fmt: skip
    process = [{"command": "x", "host": host or socket.gethostname()}]
    return make_trace(frame=frames, process=process, **tables)


def lines_of(trace):
    opened = pasta.open(trace.path)
    return opened.scan("source").select("file", "line", "text").collect().rows() if opened.has("source") else []  # fmt: skip


def test_lines_are_packed_as_compilers_count_them(make_trace, folder):
    content = b"\ta = 1\r\n\x0cb\xc3\xa9 = 2\n\n<script>"
    path = file(folder, "a.py", content)
    trace = recorded(make_trace, path)
    packed = pack(trace)
    assert (packed.files, packed.lines, packed.bytes) == (1, 4, len(content))
    assert lines_of(trace) == [(path, 1, "        a = 1"), (path, 2, "\x0cb\u00e9 = 2"), (path, 3, ""), (path, 4, "<script>")]  # fmt: skip
    hashes = pasta.open(trace.path).scan("source").collect()["sha256"].unique().to_list()
    assert hashes == [hashlib.sha256(content).hexdigest()]


def test_what_is_left_out_is_counted_with_the_reason(make_trace, folder, tmp_path):
    secret = file(tmp_path, "secret", b"password")
    (folder / "link.py").symlink_to(secret)
    (folder / "pipe.py").mkdir()
    new = folder / "new.py"
    new.write_text("changed")
    later = datetime.datetime.now(datetime.UTC).timestamp() + 3600
    os.utime(new, (later, later))
    named = [
        file(folder, "good.py", b"x"), secret, str(folder / "link.py"), str(folder / "pipe.py"), "a.py",
        str(folder / "absent.py"), str(new), file(folder, "binary.py", b"\xff\xfe"), file(folder, "large.py", b"x" * 100),
    ]  # fmt: skip
    trace = recorded(make_trace, *named)
    packed = pack(trace, most_bytes_of_file=99)
    assert packed.files == 1
    assert packed.left_out == {
        "no file of source code by its name": 3,
        "not named by an absolute path": 1,
        "not there": 1,
        "changed since the recording began, so that lines may differ": 1,
        "no text in UTF-8": 1,
        "larger than what may be packed": 1,
    }


def test_files_of_most_stacks_come_first(make_trace, folder):
    files = [file(folder, f"{name}.py", b"12345678") for name in "cab"]
    trace = recorded(make_trace, *files)
    packed = pack(trace, most_bytes=16)
    assert packed.left_out == {"larger than what may be packed": 1}
    assert {row[0] for row in lines_of(trace)} == set(files[:2])


def test_a_trace_of_another_machine_is_refused(make_trace, folder, tmp_path):
    inside = file(folder, "a.py", b"x")
    outside = file(tmp_path, "b.py", b"y")
    trace = recorded(make_trace, inside, outside, host="elsewhere")
    with pytest.raises(TraceError, match="recorded on elsewhere; pack its sources there"):
        pack_sources(trace.path)
    assert lines_of(trace) == []
    packed = pack_sources(trace.path, below=[folder])
    assert packed.left_out == {"outside of the folders named": 1}
    assert lines_of(trace) == [(inside, 1, "x")]
    with pytest.raises(TraceError, match="has its sources already"):
        pack_sources(trace.path, below=[folder])


def test_the_command_says_what_it_did(make_trace, folder, capsys, monkeypatch):
    trace = recorded(make_trace, file(folder, "a.py", b"x\ny\n"), "b.py")
    monkeypatch.setattr(sys, "argv", ["pasta", "trace", "sources", str(trace.path)])
    main()
    assert capsys.readouterr().out == "packed 1 files, 2 lines, 4 bytes\nleft out 1: not named by an absolute path\n"  # fmt: skip
    assert json.loads((trace.path / "trace.json").read_text())["state"] == "complete"
