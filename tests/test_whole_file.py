"""Files that are there whole or not at all."""

from __future__ import annotations

import errno
import json
import os
import threading
from fnmatch import fnmatch
from pathlib import Path

import polars as pl
import pytest

from pasta.testing import write_trace
from pasta.trace_merge import revise
from pasta.whole_file import UNFINISHED, whole_file, write_json


def no_links(*_arguments: object) -> None:
    raise OSError(errno.EPERM, os.strerror(errno.EPERM))


def test_a_file_that_is_being_written_has_a_name_of_its_own(tmp_path: Path) -> None:
    with whole_file(tmp_path / "a") as temporary:
        assert fnmatch(temporary.name, UNFINISHED)
        temporary.write_text("text")
        assert not (tmp_path / "a").exists()
    assert [(path.name, path.read_text()) for path in tmp_path.iterdir()] == [("a", "text")]
    assert not any(fnmatch(name, UNFINISHED) for name in (".pasta-notes", "pasta-0123456789abcdef"))


@pytest.mark.parametrize("links", [True, False])
def test_of_several_that_write_a_new_file_one_succeeds(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, links: bool
) -> None:
    if not links:
        monkeypatch.setattr(os, "link", no_links)
    count = 8
    barrier, refused, written = threading.Barrier(count), list[int](), list[int]()

    def write(number: int) -> None:
        barrier.wait()
        try:
            write_json(tmp_path / "a.json", {"by": number}, new=True)
            written.append(number)
        except FileExistsError:
            refused.append(number)

    threads = [threading.Thread(target=write, args=(number,)) for number in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(written) == 1
    assert len(refused) == count - 1
    assert json.loads((tmp_path / "a.json").read_text()) == {"by": written[0]}
    assert [path.name for path in tmp_path.iterdir()] == ["a.json"]


def test_a_revision_that_fails_leaves_the_table_as_it_was(tmp_path: Path) -> None:
    def fails(_rows: pl.DataFrame) -> pl.DataFrame:
        raise ValueError("no")

    write_trace(tmp_path / "t", kernel=[{"ts": 0, "dur": 1}])
    folder = tmp_path / "t" / "kernel"
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    with pytest.raises(ValueError, match="no"):
        revise(folder / "000000.parquet", "kernel", fails)
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == before
