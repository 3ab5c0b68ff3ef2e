"""Traces that were recorded apart become one, with the rows of all."""

from __future__ import annotations

import errno
import json
import os
import shutil
import subprocess
import sys

import polars as pl
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner
from polars.testing import assert_frame_equal

import pasta
from benchmarks.generate import Generator, Size, Template
from pasta import api, trace_combine
from pasta.cli import cli
from pasta.errors import PastaError, TraceError
from pasta.testing import write_trace
from pasta.tools.shipped import SHIPPED_TRACE
from pasta.trace import RANK_FOLDER, Trace
from pasta.whole_file import write_json

TABLES = ["kernel", "call", "process"]


def ordered(trace: Trace, table: str) -> pl.DataFrame:
    rows = trace.scan(table).collect()
    return rows.select(sorted(rows.columns)).sort(pl.all().exclude("members"), nulls_last=True)


@pytest.fixture(scope="module")
def many(tmp_path_factory) -> Trace:
    """A trace of 64 ranks with several files each."""
    folder = tmp_path_factory.mktemp("many") / "t"
    Generator(Template(Trace.open(SHIPPED_TRACE)), Size(64, 64 * 456, file_rows=200)).write(
        folder, TABLES
    )
    return Trace.open(folder)


@pytest.fixture(scope="module")
def parts(many, tmp_path_factory) -> list[Trace]:
    """Its ranks in eight traces, as eight machines may have recorded them."""
    base = tmp_path_factory.mktemp("parts")
    for rank in many.ranks:
        folder = base / f"node{rank % 8}"
        name = RANK_FOLDER.format(rank)
        shutil.copytree(many.path / name, folder / name)
        shutil.copyfile(many.path / "trace.json", folder / "trace.json")
    return [Trace.open(base / f"node{node}") for node in range(8)]


def test_64_ranks_in_eight_traces_become_one(many, parts, tmp_path):
    merged = api.merge(parts, tmp_path / "m")
    found = Trace.open(tmp_path / "m")
    assert merged.ranks == 64
    assert found.ranks == list(range(64))
    for table in TABLES:
        assert merged.rows[table] == many.rows(table)
        assert_frame_equal(ordered(found, table), ordered(many, table))
    assert len(found.files("kernel")) == len(many.files("kernel")) == 64 * 3
    assert found.info["state"] == "complete"
    assert len(found.info["merged"]) == 8
    assert found.info["ranks"] == list(range(64))
    expected = pasta.run("device_time", trace=many, engine="cpu").tables["devices"]
    devices = pasta.run("device_time", trace=found, engine="cpu").tables["devices"]
    assert_frame_equal(devices.drop("trace"), expected.drop("trace"))


def test_ranks_that_clash_are_refused_or_numbered_anew(parts, tmp_path):
    with pytest.raises(TraceError, match=r"both have process 479 of rank 4; .*--renumber"):
        api.merge([parts[4], parts[1], parts[4].path], tmp_path / "m")
    assert not (tmp_path / "m").exists()
    merged = api.merge([parts[4], parts[1], parts[4]], tmp_path / "m", renumber=True)
    found = Trace.open(tmp_path / "m")
    assert merged.ranks == 24
    rows = [ordered(part, "kernel").drop("rank") for part in (parts[4], parts[1], parts[4])]
    expected = pl.concat(rows)
    everything = ordered(found, "kernel")
    assert everything["rank"].unique().sort().to_list() == list(range(24))
    for rank in (0, 8, 23):
        held = found.scan("kernel", ranks=[rank]).collect()
        assert held["rank"].unique().to_list() == [rank]
        assert held.height == 456
    alike = everything.drop("rank")
    assert_frame_equal(alike.sort(pl.all()), expected.sort(pl.all()))


def test_processes_of_one_rank_are_put_together_in_order_of_time(make_trace, tmp_path):
    one = make_trace("one", span=[{"pid": 1, "ts": t, "name": "a"} for t in (5, 30)])
    two = make_trace("two", span=[{"pid": 2, "ts": t, "name": "b"} for t in (1, 9, 40)])
    api.merge([one, two], tmp_path / "m")
    found = Trace.open(tmp_path / "m")
    assert [file.name for file in found.files("span")] == ["000000.parquet"]
    rows = pq.read_table(found.files("span")[0]).to_pydict()
    assert rows["ts"] == [1, 5, 9, 30, 40]
    assert rows["pid"] == [2, 1, 2, 1, 2]


def test_a_trace_without_folders_of_ranks_is_cut_by_rank(make_trace, tmp_path):
    mixed = make_trace("mixed", kernel=[{"rank": r, "ts": t} for t in range(9) for r in (2, 0)])
    alone = make_trace(
        "alone", kernel=[{"rank": 1, "ts": 3}], span=[{"rank": 2, "pid": 7, "ts": 0}]
    )
    api.merge([mixed, alone], tmp_path / "m")
    found = Trace.open(tmp_path / "m")
    counts = {rank: found.scan("kernel", [rank]).collect()["rank"].to_list() for rank in (0, 1, 2)}
    assert counts == {0: [0] * 9, 1: [1], 2: [2] * 9}
    assert found.scan("span").collect()["rank"].to_list() == [2]


def test_peers_and_members_follow_the_numbers(make_trace, tmp_path):
    rows = [
        {"rank": 3, "ts": 1, "members": [3, 5], "peer": 5},
        {"rank": 5, "ts": 1, "members": [3, 9], "peer": 9},
        {"rank": 5, "ts": 2, "members": None, "peer": None},
    ]
    api.merge([make_trace("a", collective=rows)], tmp_path / "m", renumber=True)
    found = Trace.open(tmp_path / "m").scan("collective").collect().sort("rank", "ts")
    assert found["rank"].to_list() == [0, 1, 1]
    assert found["members"].to_list() == [[0, 1], None, None]
    assert found["peer"].to_list() == [1, None, None]


def test_an_occupied_folder_is_refused(make_trace, tmp_path):
    trace = make_trace("a", span=[{"ts": 1}])
    (tmp_path / "m").mkdir()
    (tmp_path / "m" / "x").touch()
    with pytest.raises(TraceError, match="not empty"):
        api.merge([trace], tmp_path / "m")


def test_the_command_says_what_it_made(make_trace, tmp_path):
    paths = [make_trace(name, span=[{"rank": 0, "ts": 1}]).path for name in ("a", "b")]
    out = str(tmp_path / "m")
    refused = CliRunner().invoke(cli, ["trace", "merge", *map(str, paths), "-o", out])
    assert refused.exit_code != 0
    done = CliRunner().invoke(cli, ["trace", "merge", *map(str, paths), "-o", out, "--renumber"])
    assert done.output == f"merged 2 traces in {out}: 2 ranks (span 2)\n"


def test_memory_does_not_grow_with_rows(tmp_path):
    """What two traces have of one rank is sorted together; sixteen times the rows take as much."""
    template = Template(Trace.open(SHIPPED_TRACE))
    peaks = []
    for kernels in (50_000, 800_000):
        made = []
        for number in (0, 1):
            path = tmp_path / f"{kernels}-{number}"
            Generator(template, Size(1, kernels), seed=number).write(path, ["kernel"])
            for file in Trace.open(path).files("kernel"):
                rows = pl.read_parquet(file, hive_partitioning=False)
                rows.with_columns(pid=pl.lit(number, pl.Int64)).write_parquet(file)
            made.append(str(path))
        code = (
            "import resource, sys; from pasta import api; api.merge(sys.argv[2:], sys.argv[1]);"
            "print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)"
        )
        command = [sys.executable, "-c", code, str(tmp_path / f"m{kernels}"), *made]
        peaks.append(int(subprocess.run(command, capture_output=True, check=True).stdout))
    assert Trace.open(tmp_path / "m800000").rows("kernel") >= 1_600_000
    assert peaks[1] < 2.5 * peaks[0]


def test_a_serialised_run_among_others_is_said(tmp_path):
    for number in range(2):
        span = {"rank": number, "span_id": 1, "tid": 1, "level": "step", "ts": 0, "dur": 5}
        write_trace(tmp_path / str(number), span=[span])
    manifest = tmp_path / "1" / "trace.json"
    told = json.loads(manifest.read_text()) | {"serialized": {"OMP_NUM_THREADS": "1"}}
    manifest.write_text(json.dumps(told))
    api.merge([tmp_path / "0", tmp_path / "1"], tmp_path / "both")
    notes = pasta.run("stack_levels", trace=tmp_path / "both").notes
    assert any("both was recorded with --serialize" in note for note in notes)


def no_space(*_arguments):
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


@pytest.mark.parametrize("is_there", [False, True])
def test_where_the_disk_is_full_no_half_trace_is_left(make_trace, tmp_path, monkeypatch, is_there):
    """The same command can be given again."""
    trace, out = make_trace(kernel=[{"ts": 0, "dur": 1}]), tmp_path / "new"
    if is_there:
        out.mkdir()
    with monkeypatch.context() as context:
        context.setattr(trace_combine, "_write_rank", no_space)
        with pytest.raises(PastaError, match="No space left on device"):
            api.merge([trace], out)
    assert out.exists() == is_there
    assert api.merge([trace], out).ranks == 1


@pytest.mark.parametrize("is_there", [False, True])
def test_of_two_that_merge_into_one_folder_at_once_one_succeeds(
    make_trace, tmp_path, monkeypatch, is_there
):
    """The other begins when the first has seen that the folder is free, and is the first to write in it."""
    trace, out = make_trace(kernel=[{"ts": 0, "dur": 1}]), tmp_path / "new"
    if is_there:
        out.mkdir()
    others = []

    def other_comes_first(*arguments, **options):
        monkeypatch.setattr("pasta.trace_writer.write_json", write_json)
        others.append(api.merge([trace], out))
        write_json(*arguments, **options)

    monkeypatch.setattr("pasta.trace_writer.write_json", other_comes_first)
    with pytest.raises(
        TraceError, match=r"new: another trace was begun there just now; choose another -o"
    ):
        api.merge([trace], out)
    assert [other.ranks for other in others] == [1]
    assert Trace.open(out).info["state"] == "complete"
    assert sorted(path.name for path in out.iterdir()) == ["rank-00000", "trace.json"]


def test_a_folder_that_cannot_be_made_is_told(make_trace, tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(
        TraceError, match=r"new: cannot be made \(Not a directory\); choose another -o"
    ):
        api.merge([make_trace(kernel=[{"ts": 0, "dur": 1}])], tmp_path / "file" / "new")


def test_a_folder_of_a_rank_that_is_read_is_not_written(tmp_path):
    """Traces may lie in the folder that is written to, under any name but those of its ranks."""
    folders = [tmp_path / "v" / RANK_FOLDER.format(number) for number in (1, 0)]
    for number, folder in zip((0, 1), folders, strict=True):
        write_trace(
            folder, kernel=[{"rank": number, "ts": at, "dur": 1} for at in range(3 + number)]
        )
    with pytest.raises(TraceError, match=r"rank-00000: is there already; choose another -o"):
        api.merge(folders, tmp_path / "v")
    assert [Trace.open(folder).rows("kernel") for folder in folders] == [3, 4]
    assert sorted(tmp_path.joinpath("v").iterdir()) == sorted(folders)


def test_what_others_put_beside_a_trace_that_failed_stays(make_trace, tmp_path, monkeypatch):
    def interrupted(*_arguments):
        (tmp_path / "new" / "notes.txt").write_text("mine")
        no_space()

    monkeypatch.setattr(trace_combine, "_write_rank", interrupted)
    with pytest.raises(PastaError, match="No space left on device"):
        api.merge([make_trace(kernel=[{"ts": 0, "dur": 1}])], tmp_path / "new")
    assert [path.name for path in (tmp_path / "new").iterdir()] == ["notes.txt"]


def test_a_folder_that_is_gone_does_not_hide_what_failed(make_trace, tmp_path, monkeypatch):
    def removed(*_arguments):
        shutil.rmtree(tmp_path / "new")
        no_space()

    monkeypatch.setattr(trace_combine, "_write_rank", removed)
    with pytest.raises(PastaError, match="No space left on device"):
        api.merge([make_trace(kernel=[{"ts": 0, "dur": 1}])], tmp_path / "new")
