"""rocprofiler-compute's counters, as others recorded them."""

from __future__ import annotations

import csv

import pytest

from pasta.collect.importing import import_trace
from pasta.errors import InputError
from pasta.trace import Trace
from tests.collect.importers.import_help import rows

TEXT = (
    "Dispatch_ID,GPU_ID,Grid_Size,Workgroup_Size,LDS_Per_Workgroup,Scratch_Per_Workitem,Arch_VGPR,"
    "Accum_VGPR,SGPR,Wave_Size,Kernel_Name,Correlation_ID,SQ_WAVES,Wave_Size_1,TCC_HIT[0],"
    "Start_Timestamp,End_Timestamp\n"
    '0,2,1000,256,64,0,4,8,16,64,"vecCopy(double*, int) (.kd)",0,16,64,2.5,100,300\n'
    "1,2,1024,256,64,0,4,8,16,64,other.kd,0,,64,3,400,500\n"
)


def test_dispatches_and_their_counters(tmp_path):
    (tmp_path / "pmc_perf.csv").write_text(TEXT)
    import_trace([tmp_path / "pmc_perf.csv"], tmp_path / "t", strict=True)
    trace = Trace.open(tmp_path / "t")
    columns = (
        "device",
        "ts",
        "dur",
        "launch_id",
        "name",
        "grid_x",
        "block_x",
        "registers",
        "shared_bytes",
    )
    assert rows(trace, "kernel", *columns) == [
        (2, 100, 200, 1, "vecCopy(double*, int)", 4, 256, 12, 64),
        (2, 400, 100, 2, "other", 4, 256, 12, 64),
    ]
    assert rows(trace, "metric", "launch_id", "ts", "name", "value") == [
        (1, 100, "SQ_WAVES", 16.0),
        (1, 100, "TCC_HIT[0]", 2.5),
        (2, 400, "TCC_HIT[0]", 3.0),
    ]


def test_a_row_that_is_cut_is_counted(tmp_path):
    (tmp_path / "x.csv").write_text(TEXT[: len(TEXT) * 9 // 10])
    report = import_trace([tmp_path / "x.csv"], tmp_path / "t")
    assert report.rows["kernel"] == 1
    assert [(reason, count) for _, reason, count, _ in report.losses] == [
        ("row with another number of fields than the header: left out", 1)
    ]
    with pytest.raises(InputError, match="another number of fields"):
        import_trace([tmp_path / "x.csv"], tmp_path / "s", strict=True)


def test_the_sample(samples, tmp_path):
    file = samples / "rocprof_compute" / "vcopy_MI300X_pmc_perf.csv"
    report = import_trace([file], tmp_path / "t")
    trace = Trace.open(tmp_path / "t")
    with file.open(newline="") as stream:
        names, *lines = csv.reader(stream)
    assert {line[names.index("Start_Timestamp")] for line in lines} == {"8.1097E+14"}
    assert rows(trace, "kernel", "launch_id", "ts", "dur", "name", "grid_x", "device") == [
        (number, None, None, "vecCopy(double*, double*, double*, int, int)", 4096, 2)
        for number in range(1, len(lines) + 1)
    ]
    assert [(reason, count) for _, reason, count, _ in report.losses] == [
        ("time that a spreadsheet has rounded (8.1E+14): read as unknown", 2 * len(lines))
    ]
    for name in ("SQC_DCACHE_REQ", "TCC_BUBBLE[0]"):
        metric = trace.scan("metric").filter(name=name).sort("launch_id").collect()
        assert metric["value"].to_list() == [float(line[names.index(name)]) for line in lines]
