"""Regions that programs mark by `pasta.h`, recorded from compiled programs."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections import Counter
from pathlib import Path

import polars as pl
import pytest

from pasta.collect.channel import SHARED_MEMORY
from pasta.collect.regions import INCLUDE, single_header
from tests.collect.recorded_programs import losses, recorded, table

HERE = Path(__file__).parent
EXAMPLE = HERE.parents[2] / "examples" / "regions.c"
STRICT = ("-O2", "-Wall", "-Wextra", "-Wconversion", "-Wpedantic", "-Werror", "-pthread")
COMPILERS = {
    "c11": ("cc", "-x", "c", "-std=c11"),
    "c++17": ("c++", "-x", "c++", "-std=c++17", "-Wno-missing-field-initializers"),
}


def built(product: Path, *arguments: object, language: str = "c11") -> Path:
    """Compile without a warning."""
    compiler, *options = COMPILERS[language]
    if shutil.which(compiler) is None:
        pytest.skip(f"no compiler ({compiler}) on this machine")
    words = [compiler, *options, *STRICT, *map(str, arguments), "-o", str(product)]
    subprocess.run(words, check=True)
    return product


@pytest.fixture(scope="module")
def program(tmp_path_factory):
    """The test program."""
    made = tmp_path_factory.mktemp("regions") / "regions"
    return built(made, f"-I{INCLUDE}", "-D_GNU_SOURCE", HERE / "regions.c")


@pytest.fixture(autouse=True)
def _no_launcher(monkeypatch):
    for name in ("RANK", "WORLD_SIZE", "LOCAL_RANK"):
        monkeypatch.delenv(name, raising=False)


def spans(trace) -> pl.DataFrame:
    """The regions, in the order of time."""
    found = table(trace, "span")
    assert set(found["level"]) <= {"annotation"}
    return found.sort("ts", maintain_order=True)


def check_times(found: pl.DataFrame, told: str) -> int:
    """Compare regions with what the program itself saw of each; return how many there are."""
    lines = [line.split("\t") for line in told.splitlines()]
    seen: dict[int, list[tuple[str, int, int]]] = {}
    for tid, name, least, greatest in lines:
        seen.setdefault(int(tid), []).append((name, int(least), int(greatest)))
    assert set(found["tid"]) == set(seen)
    for tid, expected in seen.items():
        mine = found.filter(pl.col("tid") == tid)
        ended = mine.with_columns(end=pl.col("ts") + pl.col("dur")).sort("end")
        assert ended["name"].to_list() == [name for name, _, _ in expected]
        for duration, (_, least, greatest) in zip(ended["dur"], expected, strict=True):
            assert least <= duration <= greatest
        check_nesting(mine)
    return len(lines)


def check_nesting(mine: pl.DataFrame) -> None:
    """Each region lies in one of the level above, and exclusive times sum up to the outermost's."""
    parents = mine.select("span_id", *(pl.col(c).alias(f"of_{c}") for c in ("ts", "dur", "name")))
    inner = mine.filter(pl.col("parent_id") != 0)
    joined = inner.join(parents, left_on="parent_id", right_on="span_id")
    assert joined.height == inner.height == mine.height - 1
    for row in joined.iter_rows(named=True):
        assert row["of_ts"] <= row["ts"]
        assert row["ts"] + row["dur"] <= row["of_ts"] + row["of_dur"]
        assert int(row["name"].split()[1]) == int(row["of_name"].split()[1]) + 1
    within = inner.group_by("parent_id").agg(pl.col("dur").sum().alias("inner"))
    exclusive = mine.join(within, left_on="span_id", right_on="parent_id", how="left").select(
        pl.col("dur") - pl.col("inner").fill_null(0)
    )["dur"]
    assert exclusive.min() >= 0
    assert exclusive.sum() == mine.filter(pl.col("parent_id") == 0)["dur"].sum()


@pytest.mark.parametrize(
    ("what", "regions"),
    [("nested", 121), ("threads", 31 + 3 * 5 + 3 * 31 + 2 * 121)],
)
def test_times_and_nesting_are_right_on_every_thread(program, tmp_path, capfd, what, regions):
    done, trace = recorded(tmp_path / "trace", [str(program), what])
    assert (str(done.end), done.warning) == ("exit 0", "")
    assert check_times(spans(trace), capfd.readouterr().out) == regions
    assert losses(trace) == {}


@pytest.mark.parametrize("language", COMPILERS)
def test_the_example_has_the_regions_that_it_marks(tmp_path, language):
    example = built(tmp_path / "example", f"-I{INCLUDE}", EXAMPLE, language=language)
    _, trace = recorded(tmp_path / "trace", [str(example)])
    found = spans(trace)
    expected = {"main": 1, "factor": 3, "solve": 24, **{f"worker {n}": 1 for n in range(3)}}
    assert Counter(found["name"]) == expected
    names = dict(found.select("span_id", "name").rows())
    tree = Counter((names.get(row[0]), row[1]) for row in found.select("parent_id", "name").rows())
    assert {edge: count for edge, count in tree.items() if not edge[1].startswith("worker")} == {
        (None, "main"): 1,
        **{(f"worker {n}", "factor"): 1 for n in range(3)},
        **{(f"worker {n}", "solve"): 4 for n in range(3)},
        ("solve", "solve"): 12,
    }
    least = {"main": 16_000_000, "factor": 4_000_000, "solve": 2_000_000}
    for name, nanoseconds in least.items():
        assert found.filter(pl.col("name") == name)["dur"].min() >= nanoseconds
    (pid,) = set(found["pid"])
    assert found["tid"].n_unique() == 4
    assert table(trace, "process")["pid"].to_list() == [pid]
    assert sorted(table(trace, "thread")["tid"]) == sorted(set(found["tid"]))


def test_rows_are_like_those_of_other_ranges(program, tmp_path):
    _, trace = recorded(tmp_path / "trace", [str(program), "names"])
    row = table(trace, "span").row(0, named=True)
    assert row["level"] == "annotation"
    assert (row["external_id"], row["stack_id"], row["rank"]) == (0, 0, 0)
    assert row["span_id"] > 0


def test_names_are_data(program, tmp_path):
    _, trace = recorded(tmp_path / "trace", [str(program), "names"])
    assert spans(trace)["name"].to_list() == [
        "n" * 4096, "a?b???c", "größe 🍝", "", "'; drop\ttable\n\"%s%n", "",
    ]  # fmt: skip
    assert losses(trace) == {"regions with names of more than 4,096 bytes: their names are cut": 1}


def test_regions_open_at_the_end_are_unfinished(program, tmp_path):
    done, trace = recorded(tmp_path / "trace", [str(program), "open"])
    assert str(done.end) == "exit 3"
    found = spans(trace)
    durations = dict(found.select("name", "dur").rows())
    assert durations.pop("ended") >= 0
    assert durations == {"of main": None, "of a thread": None, "waits": None}
    assert found["tid"].n_unique() == 3
    assert losses(trace) == {}


def test_a_forked_child_has_regions_of_its_own(program, tmp_path):
    _, trace = recorded(tmp_path / "trace", [str(program), "fork"])
    found = spans(trace)
    by_process = {
        pid[0]: rows["name"].to_list() for pid, rows in found.group_by(["pid"], maintain_order=True)
    }
    parent, *children = by_process
    assert by_process[parent] == ["parent", "before"]
    assert [by_process[child] for child in children] == [["child", "outermost"]] * 2
    assert set(found.filter(pl.col("pid") != parent)["parent_id"]) == {0}
    parents = dict(table(trace, "process").select("pid", "parent_pid").rows())
    assert parents == {parent: os.getpid(), **dict.fromkeys(children, parent)}


def test_what_does_not_balance_is_counted(program, tmp_path):
    _, trace = recorded(tmp_path / "trace", [str(program), "unbalanced"])
    assert Counter(spans(trace)["name"]) == {"deep": 256, "after": 1}
    assert spans(trace).filter(pl.col("name") == "after")["parent_id"].to_list() == [0]
    assert losses(trace) == {
        "regions nested deeper than 256: left out": 44,
        "ends of regions without a begin: left out": 2,
    }


def test_many_regions_of_many_names_arrive(program, tmp_path):
    _, trace = recorded(tmp_path / "trace", [str(program), "many"])
    assert Counter(spans(trace)["name"]) == {f"name {number}": 4 for number in range(5000)}
    assert losses(trace) == {}


def test_a_handler_in_the_middle_of_recording_does_no_harm(program, tmp_path):
    _, trace = recorded(tmp_path / "trace", [str(program), "interrupted"])
    found = Counter(spans(trace)["name"])
    lost = losses(trace)
    reason = "regions of signal handlers that interrupted the recording of another: left out"
    assert set(lost) <= {reason}
    assert found["work"] == 20_000
    assert lost.get(reason, 0) % 2 == 0


def test_a_kill_leaves_what_was_flushed(program, tmp_path):
    done, trace = recorded(tmp_path / "trace", [str(program), "killed"])
    assert done.end.code == -9
    assert spans(trace)["name"].to_list() == ["kept"]


def test_what_was_flushed_before_exec_stays(program, tmp_path):
    _, trace = recorded(tmp_path / "trace", [str(program), "exec"])
    assert spans(trace)["name"].to_list()[0] == "first program"
    assert spans(trace).height == 7


def test_c_and_cpp_sources_of_one_program_share_their_regions(tmp_path):
    closer = built(tmp_path / "closer.o", "-c", f"-I{INCLUDE}", HERE / "regions_closer.c")
    opener = built(
        tmp_path / "opener.o", "-c", f"-I{INCLUDE}", HERE / "regions.cpp", language="c++17"
    )
    subprocess.run(["c++", opener, closer, "-pthread", "-o", tmp_path / "both"], check=True)
    _, trace = recorded(tmp_path / "trace", [str(tmp_path / "both")])
    found = spans(trace)
    names = dict(found.select("span_id", "name").rows())
    assert [(row[0], names.get(row[1])) for row in found.select("name", "parent_id").rows()] == [
        ("whole", None),
        ("throws", "whole"),
        ("caught", "whole"),
        ("from C++ to C", "whole"),
    ]
    assert found["dur"].null_count() == 0


def test_one_file_holds_all_of_the_header(tmp_path):
    (tmp_path / "pasta.h").write_text(single_header())
    example = built(tmp_path / "example", f"-I{tmp_path}", EXAMPLE)
    _, trace = recorded(tmp_path / "trace", [str(example)])
    assert spans(trace).height == 31


def test_without_pasta_nothing_happens(program, tmp_path):
    before = set(SHARED_MEMORY.glob("pasta-*/ring-*"))
    environment = {name: os.environ[name] for name in ("PATH", "HOME") if name in os.environ}
    for what in ("nested", "unbalanced", "fork"):
        done = subprocess.run(
            [program, what], env=environment, cwd=tmp_path, check=True, capture_output=True
        )
        assert done.stderr == b""
    assert not list(tmp_path.iterdir())
    mine = {ring for ring in SHARED_MEMORY.glob("pasta-*/ring-*") if ring not in before}
    assert not [ring for ring in mine if str(program) in str(ring)]


@pytest.mark.parametrize("folder", ["", "/no/such/folder", "/" + "x" * 5000])
def test_a_channel_that_is_gone_is_none(program, folder):
    environment = {**os.environ, "PASTA_CHANNEL": folder, "PASTA_COLLECT": '{"offset": 1}'}
    done = subprocess.run([program, "names"], env=environment, check=True, capture_output=True)
    assert (done.stdout, done.stderr) == (b"", b"")
