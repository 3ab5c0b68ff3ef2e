"""RPD files and rocprofiler-compute's database, as others recorded them; the files' own views are the oracle."""

from __future__ import annotations

import contextlib
import sqlite3

import polars as pl
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pasta.collect.importing import import_trace
from pasta.errors import InputError
from pasta.trace import Trace


def imported(file, tmp_path):
    report = import_trace([file], tmp_path / "t", strict=True)
    return report, Trace.open(tmp_path / "t")


def asked(file, question):
    with contextlib.closing(
        sqlite3.connect(f"file:{file}?mode=ro&immutable=1", uri=True)
    ) as database:
        return database.execute(question).fetchall()


@pytest.fixture
def rpd(samples):
    return samples / "rpd" / "rocm_matmul_result.rpd"


def test_the_time_of_operations_is_that_of_the_view_top(rpd, tmp_path):
    report, trace = imported(rpd, tmp_path)
    assert report.rows == {
        "process": 1,
        "thread": 2,
        "call": 125,
        "kernel": 29,
        "copy": 56,
        "metric": 15,
    }
    kernels = trace.scan("kernel").group_by("name").agg(pl.len(), pl.col("dur").sum())
    found = {name: (count, time // 1000) for name, count, time in kernels.collect().rows()}
    top = {
        name: (count, time)
        for name, count, time in asked(rpd, "SELECT Name, TotalCalls, TotalDuration FROM top")
    }
    assert found == {name: of for name, of in top.items() if not name.startswith(("Copy", "Fill"))}
    copies = trace.scan("copy").group_by("kind").agg(pl.len(), pl.col("dur").sum() // 1000)
    kinds = {"HtoD": "CopyHostToDevice", "DtoH": "CopyDeviceToHost", "memset": "FillBuffer"}
    assert {kinds[kind]: (count, time) for kind, count, time in copies.collect().rows()} == {
        name: of for name, of in top.items() if name.startswith(("Copy", "Fill"))
    }


def test_devices_are_as_busy_as_the_view_busy(rpd, tmp_path):
    _, trace = imported(rpd, tmp_path)
    work = pl.concat(
        [trace.scan(table).select("device", "ts", "dur") for table in ("kernel", "copy")]
    ).collect()
    ((device, busy, wall, _),) = asked(rpd, "SELECT * FROM busy")
    assert set(work["device"]) == {device}
    assert work["dur"].sum() == busy
    assert (work["ts"] + work["dur"]).max() - work["ts"].min() == wall


def test_launches_and_their_calls(rpd, tmp_path):
    _, trace = imported(rpd, tmp_path)
    joined = trace.scan("kernel").join(trace.scan("call"), on=["rank", "pid", "correlation"])
    launches = joined.select("ts", "name", "name_right", "grid_x", "block_x").sort("ts").collect()
    assert launches.height == 29
    of_call = launches.partition_by("name_right", as_dict=True)
    assert of_call["hipLaunchKernel",].row(0)[3:] == (1, 128)
    (gemm,) = of_call["hipExtModuleLaunchKernel",].rows()
    ((grid, block),) = asked(
        rpd,
        "SELECT gridX, workgroupX FROM rocpd_kernelapi JOIN rocpd_api ON api_ptr_id = rocpd_api.id"
        " JOIN rocpd_string s ON s.id = apiName_id WHERE string = 'hipExtModuleLaunchKernel'",
    )
    assert gemm[3:] == (grid // block, block)
    sizes = sum(size for (size,) in asked(rpd, "SELECT size FROM copyop"))
    assert trace.scan("copy").select(pl.col("bytes").sum()).collect().item() == sizes
    assert trace.scan("process").select("pid").collect().item() == 1087077


def test_what_monitors_saw(rpd, tmp_path):
    _, trace = imported(rpd, tmp_path)
    first = trace.scan("metric").select("ts", "dur", "device", "name", "value").collect().row(0)
    assert first == (8306014165212251, 8306017492311037 - 8306014165212251, 0, "sclk", 800.0)


def test_markers_are_spans_and_barriers_no_work(rpd, tmp_path):
    changed = tmp_path / "x.rpd"
    changed.write_bytes(rpd.read_bytes())
    with contextlib.closing(sqlite3.connect(changed)) as database:
        database.execute(
            "INSERT INTO rocpd_string VALUES (900, 'UserMarker'), (901, 'step 1'), (902, 'Barrier')"
        )
        database.execute(
            "INSERT INTO rocpd_api VALUES (900, 1087077, 1, 8306017000000000, 8306018000000000, 900, 901)"
        )
        database.execute(
            "INSERT INTO rocpd_op VALUES (900, 2, 0, 0, '', 8306017000000000, 8306018000000000, 1, 902)"
        )
        database.commit()
    report = import_trace([changed], tmp_path / "t")
    span = Trace.open(tmp_path / "t").scan("span").select("name", "ts", "dur", "tid").collect()
    assert span.rows() == [("step 1", 8306017000000000, 1000000000, 1)]
    assert report.rows["kernel"] == 29
    assert {reason: count for _, reason, count, _ in report.losses} == {
        "barriers and markers of queues, which do no work: left out": 1,
        "operation that no call is recorded of: given the first process": 1,
    }


@given(
    put=st.binary(max_size=60), at=st.integers(0, 98_000), cut=st.none() | st.integers(100, 98_000)
)
@settings(
    max_examples=50, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
def test_damage_gives_rows_or_one_error(rpd, tmp_path_factory, put, at, cut):
    folder = tmp_path_factory.mktemp("fuzz")
    text = rpd.read_bytes()
    (folder / "x.rpd").write_bytes((text[:at] + put + text[at + len(put) :])[:cut])
    with contextlib.suppress(InputError):
        import_trace([folder / "x.rpd"], folder / "t")


def test_rocprofiler_computes_database(samples, tmp_path):
    file = samples / "rocprof_compute" / "roc_optiq_23ed6f36.db"
    report, trace = imported(file, tmp_path)
    view = asked(
        file, "SELECT kernel_name, dispatch_count, duration_ns_sum FROM compute_kernel_view"
    )
    kernels = trace.scan("kernel").group_by("name").agg(pl.len(), pl.col("dur").sum()).collect()
    assert sorted(kernels.rows()) == sorted(view)
    once = [name for name, count, _ in view if count == 1]
    values = asked(
        file,
        "SELECT count(*), sum(value) FROM compute_kernel_metric_view WHERE kernel_name IN"
        f" ({','.join('?' * len(once))})".replace("?", "'{}'").format(*once),
    )
    metrics = trace.scan("metric").select(pl.len(), pl.col("value").sum()).collect().row(0)
    assert metrics == pytest.approx(values[0])
    assert report.rows["metric"] == values[0][0]
    assert trace.scan("process").select("host").collect().item() == "asrock-1w300-h2-1"
