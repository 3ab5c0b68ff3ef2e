"""What a vendor's tool left of a run becomes rows of that run's trace, or stays and is counted."""

from __future__ import annotations

import polars as pl
import pytest

from pasta.collect.importer import IMPORTERS
from pasta.collect.recording import record_command
from pasta.collect.selection import Selection
from pasta.trace import Trace
from tests.collect.recorded_programs import ROOT, losses, python, table
from tests.collect.wrapped_programs import install, kineto

NSYS = {"nsys": "report"}
UNKNOWN = "files that this version of pasta has no importer for: kept"
FAILED = "files that could not be imported: kept"


@pytest.fixture(autouse=True)
def _no_launcher(monkeypatch):
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    for name in ("RANK", "WORLD_SIZE", "LOCAL_RANK"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def under(tmp_path, monkeypatch):
    """A function that records a command under a stand-in that leaves something."""

    def run(leave, command=("true",), chosen=NSYS, **environment):
        install(monkeypatch, tmp_path / "bin", next(iter(chosen)), leave)
        for name, value in environment.items():
            monkeypatch.setenv(name, value)
        done = record_command(list(command), tmp_path / "t", dict(chosen), Selection())
        return done, Trace.open(tmp_path / "t")

    return run


def leaving(text, name="report.sqlite"):
    """What writes one file beside the report."""
    return f"(output.parent / {name!r}).write_text({text!r})"


def test_a_file_that_has_an_importer_becomes_rows_of_the_trace(under):
    done, trace = under(leaving(kineto(pid=77)))
    kernels = table(trace, "kernel")
    assert kernels.select("rank", "ts", "dur", "name").rows() == [
        (0, 1_700_000_000_000_010_000 + 10_000 * n, 4_000, f"kernel_{n}") for n in range(3)
    ]
    assert done.rows["kernel"] == 3
    assert (done.notes, done.failure, str(done.end)) == ([], "", "exit 0")
    span = table(trace, "span").row(0, named=True)
    assert (span["pid"], span["name"]) == (77, "aten::mm")
    assert set(kernels["external_id"]) == {span["external_id"]}
    assert (done.path / "nsys" / "report.sqlite").exists()
    assert not list((done.path / "nsys").glob(".*"))
    assert losses(trace) == {}


def test_a_file_of_many_chunks_is_read_to_its_end(under):
    done, trace = under(leaving(kineto(77, 10_000)))
    assert done.notes == []
    assert table(trace, "kernel").height == 10_000


def test_a_file_without_importer_is_kept_and_counted(under):
    done, trace = under(leaving("SQLite format 3\0" + "x" * 100))
    file = done.path / "nsys" / "report.sqlite"
    assert done.notes == [f"{file}: kept; this version of pasta has no importer for it"]
    assert file.read_text() == "SQLite format 3\0" + "x" * 100
    assert losses(trace) == {UNKNOWN: 1}
    assert table(trace, "loss")["collector"].to_list() == ["nsys"]
    assert trace.info["state"] == "complete"


@pytest.mark.parametrize(
    ("text", "why"),
    [("", "empty file"), ('{"traceEvents": 3}', "traceEvents"), ("{}", "without 'traceEvents'")],
)
def test_an_import_that_fails_is_one_line_and_one_loss(under, text, why):
    done, trace = under(leaving(text), python("import pasta\nwith pasta.annotate('a'): pass"))
    (note,) = done.notes
    file = done.path / "nsys" / "report.sqlite"
    assert note.startswith(f"{file}: kept, not imported: ")
    assert why in note
    assert note.count(str(file)) == 1
    assert "\n" not in note
    assert losses(trace) == {FAILED: 1}
    assert "a" in table(trace, "span")["name"].to_list()


def test_a_defect_of_an_importer_does_not_cost_the_trace(under, monkeypatch):
    def read(*_):
        raise RuntimeError("two\nlines")

    monkeypatch.setattr(IMPORTERS.get("kineto"), "read", read)
    done, trace = under(leaving(kineto(77)))
    file = done.path / "nsys" / "report.sqlite"
    assert done.notes == [f"{file}: kept, not imported: RuntimeError: two lines"]
    assert losses(trace) == {FAILED: 1}
    assert trace.info["ended"] == "exit 0"


def test_each_process_of_rocprofv3_leaves_a_file(under):
    leave = f"""
    for pid, text in {{77: {kineto(77)!r}, 78: {kineto(78, 5)!r}, 79: "not JSON"}}.items():
        file = output / "host" / f"{{pid}}_results.json"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    """
    done, trace = under(leave, chosen={"rocprofv3": "runtime"})
    assert table(trace, "kernel").group_by("pid").len().sort("pid").rows() == [(77, 3), (78, 5)]
    file = done.path / "rocprofv3" / "host" / "79_results.json"
    assert done.notes == [f"{file}: kept; this version of pasta has no importer for it"]
    assert losses(trace) == {UNKNOWN: 1}


def test_ids_of_a_file_are_not_those_of_other_collectors(under, tmp_path):
    source = """
    import pathlib, sys, os, pasta
    with pasta.annotate("mine"):
        pathlib.Path(sys.argv[1]).write_text(str(os.getpid()))
    """
    leave = f"""
    pid = pathlib.Path(command[-1]).read_text()
    output.with_suffix(".sqlite").write_text({kineto(77777)!r}.replace("77777", pid))
    """
    _, trace = under(leave, python(source, str(tmp_path / "pid")))
    spans = table(trace, "span")
    assert {"mine", "aten::mm"} <= set(spans["name"])
    assert spans["pid"].n_unique() == 1
    assert spans["span_id"].n_unique() == spans.height
    known = {0, *spans["span_id"]}
    assert set(spans["parent_id"]) <= known


def test_rows_are_of_the_rank_of_their_process_else_of_the_launchers(under, tmp_path):
    noted = tmp_path / "pid"
    source = """
    import os, pathlib, sys
    os.environ.update(RANK="1", WORLD_SIZE="2")
    os.execv(sys.executable, [sys.executable, "-c", "import pasta, os, pathlib, sys\\n"
        "with pasta.annotate('a'): pathlib.Path(sys.argv[1]).write_text(str(os.getpid()))",
        sys.argv[1]])
    """
    leave = f"""
    pid = pathlib.Path(command[-1]).read_text()
    output.with_suffix(".sqlite").write_text({kineto(77777, rank=5)!r}.replace("77777", pid))
    output.with_name("other.sqlite").write_text({kineto(2, 4, rank=5)!r})
    """
    _, trace = under(leave, python(source, str(noted)))
    counts = table(trace, "kernel").group_by("rank").agg(pl.len(), pl.col("pid").unique())
    pid = int(noted.read_text())
    assert sorted(counts.rows()) == [(0, 4, [2]), (1, 3, [pid])]


def test_the_launchers_rank_is_that_of_its_rows(under):
    _, trace = under(leaving(kineto(77, rank=5)), RANK="1", WORLD_SIZE="2", PASTA_RUN="r")
    assert set(table(trace, "kernel")["rank"]) == {1}
