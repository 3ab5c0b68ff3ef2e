"""rocprofv3's CSV files of several releases, by hand."""

from __future__ import annotations

import contextlib
import tarfile
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pasta.collect.importing import import_trace
from pasta.errors import InputError
from pasta.trace import Trace
from tests.collect.importers.import_help import losses

AGENTS = (
    '"Node_Id","Logical_Node_Id","Agent_Type","Cu_Count","Name","Vendor_Name","Product_Name"\n'
    '0,0,"CPU",128,"AMD EPYC","CPU","AMD EPYC"\n'
    '5,2,"GPU",304,"gfx942","AMD","AMD Instinct MI300X"\n'
    '4,1,"GPU",304,"gfx942","AMD","AMD Instinct MI300X"\n'
)
KERNELS_7 = (
    '"Kind","Agent_Id","Queue_Id","Stream_Id","Thread_Id","Dispatch_Id","Kernel_Id","Kernel_Name",'
    '"Correlation_Id","Start_Timestamp","End_Timestamp","LDS_Block_Size","Scratch_Size","VGPR_Count",'
    '"Accum_VGPR_Count","SGPR_Count","Workgroup_Size_X","Workgroup_Size_Y","Workgroup_Size_Z",'
    '"Grid_Size_X","Grid_Size_Y","Grid_Size_Z"\n'
    '"KERNEL_DISPATCH","Agent 5",1,9,8,1,16,"add<float, 4>(float*)",3,5000,5900,512,16,32,8,16,64,2,1,100,4,1\n'
    '"KERNEL_DISPATCH","Agent 4",1,9,8,2,16,"say ""hi""",4,6000,6100,0,0,32,0,16,64,1,1,64,1,1\n'
)
KERNELS_62 = (
    '"Kind","Agent_Id","Queue_Id","Kernel_Id","Kernel_Name","Correlation_Id","Start_Timestamp",'
    '"End_Timestamp","Private_Segment_Size","Group_Segment_Size","Workgroup_Size_X","Workgroup_Size_Y",'
    '"Workgroup_Size_Z","Grid_Size_X","Grid_Size_Y","Grid_Size_Z"\r\n'
    '"KERNEL_DISPATCH",5,7,16,"_Z3addPfi.kd",3,5000,5900,8,64,64,1,1,640,1,1\r\n'
)
CALLS = (
    '"Domain","Function","Process_Id","Thread_Id","Correlation_Id","Start_Timestamp","End_Timestamp"\n'
    '"HIP_RUNTIME_API","hipLaunchKernel",77,8,3,4000,4100\n'
    '"HIP_COMPILER_API","__hipPushCallConfiguration",77,8,2,3990,3995\n'
)
MARKERS = (
    '"Domain","Function","Process_Id","Thread_Id","Correlation_Id","Start_Timestamp","End_Timestamp"\n'
    '"MARKER_CORE_API","step, one",77,8,1,3000,7000\n'
    '"MARKER_CORE_API","inner",77,8,1,3500,3600\n'
    '"MARKER_CORE_API","roctxGetThreadId",77,8,1,3100,3101\n'
)
COPIES = (
    '"Kind","Direction","Stream_Id","Source_Agent_Id","Destination_Agent_Id","Correlation_Id",'
    '"Start_Timestamp","End_Timestamp"\n'
    '"MEMORY_COPY","MEMORY_COPY_HOST_TO_DEVICE",9,"Agent 0","Agent 5",6,100,200\n'
    '"MEMORY_COPY","DEVICE_TO_HOST",9,"Agent 5","Agent 0",6,300,400\n'
    '"MEMORY_COPY","DEVICE_TO_DEVICE",9,"Agent 5","Agent 4",6,500,600\n'
)
ALLOCATIONS = (
    '"Kind","Operation","Agent_Id","Allocation_Size","Address","Correlation_Id","Start_Timestamp","End_Timestamp"\n'
    '"MEMORY_ALLOCATION","MEMORY_ALLOCATION_ALLOCATE","Agent 5",4096,0x00007f0000000000,1,10,20\n'
    '"MEMORY_ALLOCATION","MEMORY_ALLOCATION_FREE","",0,0x00007f0000000000,1,30,40\n'
)
COUNTERS = (
    '"Correlation_Id","Dispatch_Id","Agent_Id","Queue_Id","Process_Id","Thread_Id","Grid_Size","Kernel_Id",'
    '"Kernel_Name","Workgroup_Size","LDS_Block_Size","Scratch_Size","VGPR_Count","Accum_VGPR_Count",'
    '"SGPR_Count","Counter_Name","Counter_Value","Start_Timestamp","End_Timestamp"\n'
    '3,1,"Agent 5",1,77,8,640,16,"add",64,0,0,32,0,16,"SQ_WAVES",10.000000,5000,5900\n'
    '3,1,"Agent 5",1,77,8,640,16,"add",64,0,0,32,0,16,"GRBM_COUNT",2.5e1,5000,5900\n'
)
SUMS = '"Name","Calls","TotalDurationNs","AverageNs","Percentage","MinNs","MaxNs","StdDev"\n"add",1,2,2,100,2,2,0\n'
ALL = {
    "agent_info": AGENTS,
    "kernel_trace": KERNELS_7,
    "hip_api_trace": CALLS,
    "marker_api_trace": MARKERS,
    "memory_copy_trace": COPIES,
    "memory_allocation_trace": ALLOCATIONS,
    "kernel_stats": SUMS,
}


@pytest.fixture
def written(tmp_path):
    def write(process="77", folder="host", **files):
        place = tmp_path / folder
        place.mkdir(exist_ok=True)
        for kind, text in files.items():
            (place / f"{process}_{kind}.csv").write_text(text, newline="", encoding="utf-8")
        return sorted(place.glob(f"{process}_*.csv"))

    return write


@pytest.fixture
def imported(tmp_path):
    def run(*files, strict=False):
        out = tmp_path / f"t{len(list(tmp_path.iterdir()))}"
        report = import_trace(list(files), out, strict=strict)
        return report, Trace.open(out)

    return run


def rows(trace, table, *columns):
    return trace.scan(table).select(columns).collect().rows() if trace.files(table) else []


KERNEL_COLUMNS = (
    "device", "ts", "dur", "launch_id", "correlation", "stream", "name", "grid_x", "grid_y",
    "block_x", "block_y", "registers", "shared_bytes", "local_bytes",
)  # fmt: skip


def test_kernels_of_rocm_7(written, imported):
    report, trace = imported(*written(agent_info=AGENTS, kernel_trace=KERNELS_7))
    assert report.format == "rocprofv3 (CSV)"
    assert rows(trace, "kernel", *KERNEL_COLUMNS) == [
        (1, 5000, 900, 1, 3, 9, "add<float, 4>(float*)", 2, 2, 64, 2, 40, 512, 16),
        (0, 6000, 100, 2, 4, 9, 'say "hi"', 1, 1, 64, 1, 32, 0, 0),
    ]
    assert rows(trace, "device", "device", "name", "compute_capability", "multiprocessors") == [
        (0, "AMD Instinct MI300X", "gfx942", 304),
        (1, "AMD Instinct MI300X", "gfx942", 304),
    ]
    assert rows(trace, "process", "pid") == [(77,)]


def test_kernels_of_rocm_6_alone(written, imported):
    _, trace = imported(*written(kernel_trace=KERNELS_62))
    assert rows(trace, "kernel", *KERNEL_COLUMNS) == [
        (5, 5000, 900, 1, 3, 7, "add(float*, int)", 10, 1, 64, 1, None, 64, 8)
    ]


@pytest.mark.parametrize("as_folder", [False, True])
def test_files_of_one_process_are_one_rank(written, imported, as_folder):
    files = written(**ALL)
    report, trace = imported(files[0].parent) if as_folder else imported(*files[::-1])
    assert report.ranks == [0]
    expected = {"process": 1, "thread": 1, "device": 2, "span": 2, "call": 1, "kernel": 2, "copy": 3,
                "memory": 2, "loss": 3}  # fmt: skip
    assert report.rows == expected
    assert rows(trace, "call", "ts", "dur", "tid", "correlation", "name") == [
        (4000, 100, 8, 3, "hipLaunchKernel")
    ]
    assert rows(trace, "span", "ts", "name", "span_id", "parent_id") == [
        (3000, "step, one", 1, 0),
        (3500, "inner", 2, 1),
    ]
    assert rows(trace, "copy", "kind", "device") == [("HtoD", 1), ("DtoH", 1), ("PtoP", 0)]
    assert rows(trace, "memory", "ts", "event", "device", "bytes", "object_id", "address") == [
        (20, "allocate", 1, 4096, 1, 0x7F0000000000),
        (30, "release", 1, 4096, 1, 0x7F0000000000),
    ]
    joined = trace.scan("call").join(trace.scan("kernel"), on=["rank", "pid", "correlation"])
    assert joined.collect().height == 1
    assert losses(report) == {
        "calls that the compiler puts around launches and into start-up: left out": 1,
        "roctx call that is no range or mark: left out": 1,
        "sums of calls, which the traces beside them give too: left out": 1,
    }


def test_processes_are_ranks(written, imported):
    files = [
        *written(kernel_trace=KERNELS_7, hip_api_trace=CALLS),
        *written("78", kernel_trace=KERNELS_7),
    ]
    report, trace = imported(*files)
    assert report.ranks == [0, 1]
    assert sorted(rows(trace, "process", "rank", "pid")) == [(0, 77), (1, 78)]
    with pytest.raises(InputError, match="2 processes"):
        imported(files[0].parent)


def test_counters_and_the_kernels_that_they_are_of(written, imported):
    _, trace = imported(
        *written(agent_info=AGENTS, counter_collection=COUNTERS, kernel_trace=KERNELS_7)
    )
    assert rows(trace, "metric", "launch_id", "device", "ts", "dur", "name", "value") == [
        (1, 1, 5000, 900, "SQ_WAVES", 10.0),
        (1, 1, 5000, 900, "GRBM_COUNT", 25.0),
    ]
    assert rows(trace, "kernel", "launch_id", "name", "grid_x", "block_x") == [
        (1, "add", 10, 64),
        (2, 'say "hi"', 1, 64),
    ]


def test_counters_without_times(written, imported):
    lines = [line.rsplit(",", 2)[0] for line in COUNTERS.splitlines()]
    report, trace = imported(*written(counter_collection="\n".join(lines) + "\n"))
    assert rows(trace, "kernel", "launch_id", "ts", "dur") == [(1, None, None)]
    assert rows(trace, "metric", "ts", "value") == [(None, 10.0), (None, 25.0)]
    assert losses(report) == {}


def test_sums_alone_name_what_to_import(written, imported):
    with pytest.raises(InputError, match=r"sums of calls, not their times; import the \*_trace"):
        imported(*written(kernel_stats=SUMS))


def test_damage_is_counted(written, imported):
    text = (
        "\ufeff" + KERNELS_7.replace('"Agent 4"', '"?"').replace(",5900,", ",49,") + '"KERNEL_DISP'
    )
    report, trace = imported(*written(kernel_trace=text))
    assert rows(trace, "kernel", "device", "dur") == [(5, None), (None, 100)]
    assert losses(report) == {
        "kernel that ends before it starts: kept without a duration": 1,
        "agent that cannot be told: device unknown": 1,
        "row with another number of fields than the header: left out": 1,
    }
    with pytest.raises(InputError, match="other number of fields"):
        imported(*written("9", folder="strict", kernel_trace=KERNELS_7 + "1,2\n"), strict=True)


def test_files_of_one_process_in_an_archive_are_one_rank(tmp_path, written, imported):
    files = written(kernel_trace=KERNELS_7, hip_api_trace=CALLS)
    plain, _ = imported(*files)
    report = import_trace([packed(tmp_path / "a.tar", files)], tmp_path / "out")
    assert report.ranks == [0]
    assert report.rows == plain.rows
    assert losses(report) == losses(plain)


def test_a_cut_archive_of_one_process_says_which_file_is_not_whole(tmp_path, written):
    files = written(kernel_trace=KERNELS_7, hip_api_trace=CALLS)
    archive = packed(tmp_path / "a.tar", files[::-1])
    whole = archive.read_bytes()
    archive.write_bytes(whole[: whole.rindex(CALLS.encode()[-10:])])
    report = import_trace([archive], tmp_path / "out")
    assert report.rows["kernel"] == 2
    assert any("hip_api_trace.csv: the archive is cut" in told for told in report.warnings)


def packed(archive: Path, files: list[Path]) -> Path:
    """Return an archive with files, all of one folder."""
    with tarfile.open(archive, "w") as tar:
        for file in files:
            tar.add(file, f"host/{file.name}")
    return archive


def test_sizes_that_fit_no_column_are_unknown(written, imported):
    text = KERNELS_7.replace(",512,16,", ",4294967296,-1,")
    report, trace = imported(*written(kernel_trace=text))
    assert rows(trace, "kernel", "shared_bytes", "local_bytes") == [(None, None), (0, 0)]
    assert losses(report) == {
        "LDS_Block_Size is not a whole number that fits: read as null": 1,
        "Scratch_Size is not a whole number that fits: read as null": 1,
    }


def test_kernels_of_one_dispatch_id_are_told_apart(written, imported):
    report, trace = imported(*written(kernel_trace=KERNELS_7.replace(",8,2,16,", ",8,1,16,")))
    assert rows(trace, "kernel", "launch_id", "ts") == [(1, 5000), ((1 << 61) + 1, 6000)]
    assert losses(report) == {"kernel with the dispatch id of another: given an id of its own": 1}


@given(
    kind=st.sampled_from(sorted(ALL)),
    put=st.text(max_size=12)
    | st.sampled_from(['"', ",", "\n", "-1", "1e99", "99999999999999999999"]),
    at=st.integers(0, 900),
    drop=st.integers(0, 40),
)
@settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
def test_any_damage_gives_rows_or_one_error(tmp_path_factory, kind, put, at, drop):
    folder = tmp_path_factory.mktemp("fuzz")
    for name, text in ALL.items():
        damaged = text[:at] + put + text[at + drop :] if name == kind else text
        (folder / f"1_{name}.csv").write_text(damaged or "\n", newline="", encoding="utf-8")
    with contextlib.suppress(InputError):
        import_trace(sorted(folder.glob("*.csv")), folder / "t")
