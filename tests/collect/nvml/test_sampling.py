"""Sampling cards beside a program: what becomes rows, what is counted, what is left behind."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import polars as pl
import pytest

from pasta.collect.collectors import parse_with
from pasta.collect.nvml.sampling import Sampling, check_library
from pasta.collect.recording import epoch_offset
from pasta.errors import CollectError
from pasta.trace import Trace
from tests.collect.nvml.stand_in import compiled
from tests.collect.recorded_programs import ROOT, losses, table

OF_A_CARD = {
    "sm_clock": (1980.0, "MHz"),
    "memory_clock": (2619.0, "MHz"),
    "power": (90067.0, "mW"),
    "power_now": (70718.0, "mW"),
    "temperature": (35.0, "C"),
    "memory_used": (1000.0, "bytes"),
    "utilisation": (97.0, "%"),
    "memory_utilisation": (41.0, "%"),
    "throttle_idle": (0.0, "flag"),
    "throttle_clocks_setting": (0.0, "flag"),
    "throttle_power_cap": (1.0, "flag"),
    "throttle_hardware": (0.0, "flag"),
    "throttle_sync_boost": (0.0, "flag"),
    "throttle_thermal": (1.0, "flag"),
    "throttle_thermal_hardware": (0.0, "flag"),
    "throttle_power_brake": (0.0, "flag"),
    "throttle_display": (0.0, "flag"),
}
DIFFER_BY_CARD = {"sm_clock", "memory_clock", "memory_used"}


@pytest.fixture(scope="module")
def library(tmp_path_factory):
    return compiled(tmp_path_factory.mktemp("nvml"))


@pytest.fixture(autouse=True)
def _plain_environment(monkeypatch):
    for name in ("CUDA_VISIBLE_DEVICES", "CUDA_DEVICE_ORDER", "RANK", "WORLD_SIZE"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture(autouse=True)
def _patience(monkeypatch):
    """Give the helper the time to begin and to end that a busy machine needs."""
    for name in ("_READY_SECONDS", "_END_SECONDS"):
        monkeypatch.setattr(f"pasta.collect.nvml.sampling.{name}", 60.0)


def sampled(library, seconds=0.2, period=0.02, rank=0, samples=0):
    """What is appended while a block runs, by table; notes, the time before and after.

    The block runs for so long, and until there are so many samples of the first card.
    """
    rows: dict[str, list[pl.DataFrame]] = {}

    def append(of, name, arrow):
        assert of == rank
        rows.setdefault(name, []).append(pl.from_arrow(arrow))

    offset = epoch_offset()
    before = time.monotonic_ns() + offset
    with Sampling(append, rank, offset, period, str(library)) as sampling:
        until = time.monotonic() + seconds
        while time.monotonic() < until or samples_of(rows) < samples:
            sampling.receive()
            time.sleep(0.005)
        notes = sampling.finish()
    after = time.monotonic_ns() + offset
    return {name: pl.concat(frames) for name, frames in rows.items()}, notes, before, after


def samples_of(rows):
    """How many samples of the first card were appended."""
    metrics = (frame.filter(device=0) for frame in rows.get("metric", ()))
    return sum(frame["ts"].n_unique() for frame in metrics)


def test_every_counter_of_every_card_has_its_value_and_unit(library):
    tables, notes, before, after = sampled(library)
    metrics = tables["metric"]
    assert notes == []
    for device in (0, 1):
        first = metrics.filter(pl.col("device") == device).unique("name", keep="first")
        found = {
            name: (value, unit)
            for name, value, unit in first.select("name", "value", "unit").rows()
        }
        energy, unit = found.pop("energy")
        assert (unit, energy >= 1 << 40) == ("mJ", True)
        expected = {
            name: (value + device * (name in DIFFER_BY_CARD), unit)
            for name, (value, unit) in OF_A_CARD.items()
        }
        assert found == expected
    assert metrics["ts"].is_between(before, after).all()
    assert set(metrics["launch_id"]) == {0}
    assert set(metrics["pid"]) == {os.getpid()}


def test_samples_go_on_until_the_end(library):
    tables, _, before, after = sampled(library, seconds=0.3, period=0.02, samples=4)
    energy = tables["metric"].filter(pl.col("name") == "energy", pl.col("device") == 0)
    times = energy["ts"]
    assert times.is_sorted()
    assert len(times) >= 4
    assert energy["value"].diff().drop_nulls().min() > 0
    last = times[-1] - before
    assert last >= 0.3e9
    assert times[-1] <= after


def test_the_cards_are_rows_of_device(library):
    tables, *_ = sampled(library, seconds=0)
    devices = tables["device"].select("device", "vendor", "name", "uuid", "memory_bytes")
    assert devices.rows() == [
        (n, "nvidia", "Card", f"GPU-0000000{n}-aaaa", 80 << 30) for n in (0, 1)
    ]
    assert tables["device"]["compute_capability"].to_list() == ["9.0", "9.0"]


def test_ordinals_are_those_that_cuda_gives_visible_cards(library, monkeypatch):
    monkeypatch.setenv("STAND_IN_CARDS", "4")
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "3,GPU-00000001")
    tables, *_ = sampled(library, seconds=0)
    assert tables["device"].select("device", "uuid").rows() == [
        (0, "GPU-00000003-aaaa"),
        (1, "GPU-00000001-aaaa"),
    ]
    used = tables["metric"].filter(pl.col("name") == "memory_used")
    assert set(used.select("device", "value").rows()) == {(0, 1003.0), (1, 1001.0)}


def test_what_a_card_does_not_tell_is_counted_once(library, monkeypatch):
    monkeypatch.setenv("STAND_IN_CARDS", "1")
    monkeypatch.setenv("STAND_IN_NO_POWER", "1")
    tables, notes, *_ = sampled(library)
    assert notes == []
    names = set(tables["metric"]["name"])
    assert "power" not in names
    assert "memory_temperature" not in names
    assert "power_now" in names
    lost = dict(tables["loss"].select("reason", "count").rows())
    lost.pop("samples that were not taken, as the machine or the recording was too slow", None)
    assert lost == {
        "power of device 0: insufficient permissions: not recorded": 1,
        "memory_temperature of device 0: not supported: not recorded": 1,
    }
    assert set(tables["loss"]["collector"]) == {"nvml"}


def test_a_failure_that_may_pass_is_counted_each_time(library, monkeypatch):
    monkeypatch.setenv("STAND_IN_CARDS", "1")
    monkeypatch.setenv("STAND_IN_LOST", "1")
    tables, *_ = sampled(library, samples=2)
    lost = dict(tables["loss"].select("reason", "count").rows())
    samples = tables["metric"].filter(pl.col("name") == "power").height
    assert samples > 1
    assert lost["temperature of device 0: gpu is lost: left out of a sample"] == samples


@pytest.mark.parametrize(
    ("variable", "value", "why"),
    [
        ("STAND_IN_NO_DRIVER", "1", "driver not loaded"),
        ("STAND_IN_CARDS", "0", "no card"),
        ("CUDA_VISIBLE_DEVICES", "", "no card is visible (CUDA_VISIBLE_DEVICES)"),
    ],
)
def test_where_nothing_can_be_sampled_one_line_says_why(library, monkeypatch, variable, value, why):
    monkeypatch.setenv(variable, value)
    tables, notes, *_ = sampled(library, seconds=0)
    assert notes == [f"nvml: nothing was sampled: {why}"]
    assert tables["loss"].select("reason", "count").rows() == [(f"nothing was sampled: {why}", 1)]
    assert "metric" not in tables


def test_a_library_that_hangs_does_not_hang_the_recording(library, monkeypatch):
    monkeypatch.setenv("STAND_IN_HANGS", "1")
    monkeypatch.setattr("pasta.collect.nvml.sampling._READY_SECONDS", 0.3)
    monkeypatch.setattr("pasta.collect.nvml.sampling._END_SECONDS", 5)
    tables, notes, *_ = sampled(library, seconds=0)
    assert notes == []
    assert tables["loss"]["reason"].to_list() == [
        "the helper that samples failed, or had to be killed"
    ]


def test_a_library_that_talks_is_not_believed(library, monkeypatch):
    monkeypatch.setenv("STAND_IN_TALKS", "1")
    tables, *_ = sampled(library, seconds=0)
    lost = dict(tables["loss"].select("reason", "count").rows())
    assert lost["lines that something else wrote to the helper's output: left out"] == 1
    assert tables["device"].height == 2


def test_an_absent_library_is_one_line():
    with pytest.raises(
        CollectError, match=r"--with nvml: libabsent.so.7 cannot be loaded"
    ) as error:
        check_library("libabsent.so.7")
    assert "\n" not in str(error.value)


def test_the_helper_dies_with_the_recording(library):
    source = f"""
    import sys, time
    from pasta.collect.nvml.sampling import Sampling
    sampling = Sampling(lambda *_: None, 0, 0, 0.01, {str(library)!r}).__enter__()
    print(sampling._helper.pid, flush=True)
    time.sleep(600)
    """
    command = [sys.executable, "-c", "\n".join(line[4:] for line in source.splitlines())]
    recording = subprocess.Popen(command, stdout=subprocess.PIPE, cwd=ROOT)
    assert recording.stdout is not None
    helper = int(recording.stdout.readline())
    assert Path(f"/proc/{helper}").exists()
    recording.send_signal(signal.SIGKILL)
    recording.communicate(timeout=60)
    until = time.monotonic() + 60
    while _runs(helper) and time.monotonic() < until:
        time.sleep(0.01)
    assert not _runs(helper)


def _runs(pid):
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return False
    return state != "Z"


def collect(library, out, *arguments, **environment):
    """`pasta collect` in a process of its own that finds the stand-in."""
    command = [sys.executable, "-m", "pasta", "collect", "-o", str(out), *arguments]
    paths = {"LD_LIBRARY_PATH": str(library.parent), "PYTHONPATH": str(ROOT)}
    return subprocess.run(
        command, env={**os.environ, **paths, **environment},
        capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip


def test_it_records_beside_a_program_that_knows_nothing_of_it(library, tmp_path):
    # Two files that were not there at its beginning: the second is of rows that came after it.
    files = f"ls {tmp_path}/t/rank-00000/metric 2>/dev/null | grep -c parquet"
    program = f'began=$({files}); until [ "$({files})" -ge $((began + 2)) ]; do sleep 0.05; done'
    done = collect(
        *(library, tmp_path / "t", "--with", "nvml", "--period", "0.02"),
        *("--", "sh", "-c", program),
    )
    assert done.returncode == 0
    assert done.stderr.count("\n") == 1
    trace = Trace.open(tmp_path / "t")
    (collector,) = trace.info["collectors"]
    assert (collector["name"], collector["period_seconds"]) == ("nvml:samples", 0.02)
    metrics = table(trace, "metric").filter(~pl.col("name").str.starts_with("pasta."))
    assert metrics["device"].unique().to_list() == [0, 1]
    process = table(trace, "process").row(0, named=True)
    within = metrics["ts"].is_between(process["started"], process["ended"])
    assert within.sum() > 20
    assert json.dumps(losses(trace)).count("memory_temperature") == 2


def test_it_goes_with_any_other_collector(library, tmp_path):
    assert parse_with(["nvml,torch:touch"]) == {"nvml": "samples", "torch": "touch"}
    source = (
        "import glob, time, pasta\n"
        "with pasta.annotate('mine'): pass\n"
        f"while not glob.glob('{tmp_path}/t/rank-00000/metric/*.parquet'): time.sleep(0.05)\n"
    )
    with_both = ("--with", "nvml,torch:touch", "--", sys.executable, "-c", source)
    done = collect(library, tmp_path / "t", *with_both)
    assert done.returncode == 0
    trace = Trace.open(tmp_path / "t")
    assert "mine" in table(trace, "span")["name"].to_list()
    assert "sm_clock" in table(trace, "metric")["name"].to_list()
    assert table(trace, "process").height == 1


def test_without_nvml_nothing_is_run(tmp_path):
    if Path("/proc/driver/nvidia").exists():
        pytest.skip("this machine has NVML")
    command = [sys.executable, "-m", "pasta", "collect", "--with", "nvml", "-o", tmp_path / "t"]
    done = subprocess.run(
        [*command, "--", "touch", tmp_path / "ran"],
        env={**os.environ, "PYTHONPATH": str(ROOT)}, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 2
    assert done.stderr.startswith("pasta: --with nvml: libnvidia-ml.so.1 cannot be loaded")
    assert done.stderr.count("\n") == 1
    assert list(tmp_path.iterdir()) == []


@pytest.mark.gpu
def test_a_real_card_tells_of_itself():
    check_library()
    tables, notes, before, after = sampled("libnvidia-ml.so.1", seconds=0.5, period=0.1)
    assert notes == []
    assert tables["device"]["uuid"].str.starts_with("GPU-").all()
    metrics = tables["metric"].filter(pl.col("device") == 0)
    known = dict(metrics.group_by("name").agg(pl.col("value").max()).rows())
    assert 100 < known["sm_clock"] < 10_000
    assert 0 < known["memory_used"] <= tables["device"]["memory_bytes"][0]
    assert 0 <= known["utilisation"] <= 100
    assert metrics["ts"].is_between(before, after).all()
