"""All fifteen analyses of XSP against a computation by loops, on runs and ranks made at random.

Of two runs with two ranks each, one run has one step only, one rank has no counters and no allocations, one has no
operators; calls launch graphs, some kernels take no time, some lie in no step, and some steps leave layers out.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from typing import Any

import polars as pl
import pytest

from pasta import api
from pasta.testing import write_trace
from pasta.tools.report import Report
from tests.tools.model_run import model_run
from tests.tools.xsp_by_hand import Process, Row, at_once, bound, interval, total

PEAKS, BANDWIDTH = {"fp32": 1e9, "fp16": 4e9}, 1e8
DEVICE = {"device": 0, "peak_flops_fp32": 1e9, "peak_flops_fp16": 4e9, "peak_bandwidth": 1e8}
RUNS: dict[str, list[dict[str, Any]]] = {
    "b8": [{"steps": 7}, {"steps": 4, "counted": False, "memory": False}],
    "b16": [{"steps": 1}, {"steps": 5, "operators": False}],
}
SUMS = ("flops", "read_bytes", "written_bytes", "bytes", "compute_ns", "memory_ns")


@pytest.fixture(scope="module", params=range(3))
def run(request, tmp_path_factory) -> tuple[dict[str, Report], dict[tuple[str, int], Process]]:
    """Run all tools once, and recompute each process."""
    folder, traces, processes = tmp_path_factory.mktemp("by_hand"), {}, {}
    for name, ranks in RUNS.items():
        merged: dict[str, list[Row]] = defaultdict(list)
        for rank, kind in enumerate(ranks):
            tables = model_run(100 * request.param + len(processes), rank=rank, **kind)
            processes[name, rank] = Process(tables, PEAKS, BANDWIDTH)
            for table, rows in tables.items():
                merged[table] += rows
        traces[name] = write_trace(folder / name, **merged, device=[DEVICE])
    reports, _ = api.report(runs=traces, tools=["xsp"])
    return {report.tool.removeprefix("xsp_"): report for report in reports}, processes


def rows_of(report: Report, table: str, key: tuple[str, int]) -> list[Row]:
    return report.tables[table].filter(trace=key[0], rank=key[1]).to_dicts()


def same(found: Any, expected: Any) -> bool:
    """Tell whether numbers are equal but for what rounding to a whole ns or byte, or floats, may do."""
    if found is None or expected is None or isinstance(expected, str):
        return bool(found == expected)
    return bool(found == pytest.approx(expected, rel=1e-9, abs=1.0 if isinstance(found, int) else 1e-9))  # fmt: skip


def check(found: Row, expected: Row, columns: Iterable[str]) -> None:
    wrong = {c: (found[c], expected[c]) for c in columns if not same(found[c], expected[c])}
    assert wrong == {}, (found, expected)


def test_layers(run):
    """A2, A3, A4, A11 and A13 list the same layers, each with all of its numbers."""
    reports, processes = run
    for key, process in processes.items():
        expected = {layer["index"]: layer for layer in process.layers}
        assert len(expected) > 4
        for tool, table in (("a2", "layers"), ("a3", "layers"), ("a4", "layers"), ("a11", "longest"), ("a13", "longest")):  # fmt: skip
            found = rows_of(reports[tool], table, key)
            wanted = [index for index in sorted(expected) if index >= 0 or tool == "a11"]
            if len(reports[tool].tables[table]) < 30:
                assert sorted(row["index"] for row in found) == wanted
            for row in found:
                layer = expected[row["index"]]
                check(row, layer, ("layer", "type", "phase", "n", "kernel_ns", "gpu_ns", *SUMS[:4]))
                assert row["kernels"] == pytest.approx(
                    layer["kernels"], abs=0.05
                )  # one place is shown
                if row["index"] >= 0:
                    check(row, layer, ("latency_ns", "total_ns", "allocated_bytes"))
                    assert row["gpu_ns"] + row["non_gpu_ns"] == row["latency_ns"]
                if tool == "a11":
                    assert row["bound"] == bound(layer)


def test_sums_of_a_step(run):
    """What the layers of a step take: A2, A3, A13, and shares of all."""
    reports, processes = run
    for key, process in processes.items():
        inside = [layer for layer in process.layers if layer["index"] >= 0]
        (a2,), (a13,) = rows_of(reports["a2"], "sums", key), rows_of(reports["a13"], "shares", key)
        assert (a2["layers"], a2["steps"]) == (len(inside), len(process.steps))
        latency = process.of_step(inside, "latency_ns")
        assert a2["latency_ns"] == a13["latency_ns"] == pytest.approx(latency, abs=1)
        assert a13["gpu_ns"] == pytest.approx(process.of_step(inside, "gpu_ns"), abs=1)
        assert a13["kernel_ns"] == pytest.approx(process.of_step(inside, "kernel_ns"), abs=len(inside))  # fmt: skip
        for row in rows_of(reports["a3"], "layers", key):
            (layer,) = (one for one in inside if one["index"] == row["index"])
            share = layer["latency_ns"] * layer["n"] / len(process.steps) / latency
            assert row["latency_share"] == pytest.approx(share)


def test_thirds(run):
    """A3, A4 and A12 cut the layers of forward into three."""
    reports, processes = run
    for key, process in processes.items():
        forward = sorted((one for one in process.layers if one["phase"] == "forward"), key=lambda one: one["index"])  # fmt: skip
        for tool, columns in (("a3", ("latency_ns", "kernel_ns")), ("a4", ("allocated_bytes",)), ("a12", ("flops", "bytes"))):  # fmt: skip
            found = {row["part"]: row for row in rows_of(reports[tool], "thirds", key)}
            for part in range(3):
                mine = [
                    one for place, one in enumerate(forward) if 3 * place // len(forward) == part
                ]
                assert found[part]["layers"] == len(mine)
                for column in columns:
                    wanted = process.of_step(mine, column)
                    assert found[part][column] == (None if wanted is None else pytest.approx(wanted, abs=len(mine)))  # fmt: skip


def test_types(run):
    """A5, A6 and A7 add layers up by type and phase."""
    reports, processes = run
    for key, process in processes.items():
        by_type: dict[tuple[str, str], list[Row]] = defaultdict(list)
        for layer in process.layers:
            if layer["index"] >= 0:
                by_type[layer["type"], layer["phase"]].append(layer)
        layers = sum(map(len, by_type.values()))
        for tool in ("a5", "a6", "a7"):
            found = {(r["type"], r["phase"]): r for r in rows_of(reports[tool], "types", key)}
            assert found.keys() == by_type.keys()
            for kind, rows in by_type.items():
                assert found[kind]["layers"] == len(rows)
                assert found[kind]["layers_share"] == pytest.approx(len(rows) / layers)
                for column in ("latency_ns", "kernel_ns", "allocated_bytes"):
                    wanted = process.of_step(rows, column)
                    assert found[kind][column] == (None if wanted is None else pytest.approx(wanted, abs=len(rows)))  # fmt: skip


def test_kernels(run):
    """A8 lists kernels, A9 says what bounds them; both count what lies in a step."""
    reports, processes = run
    for key, process in processes.items():
        expected = {(k["index"], k["name"], k["repeat"]): k for k in process.kernels}
        for row in rows_of(reports["a8"], "kernels", key):
            kernel = expected[row["index"], row["name"], row["repeat"]]
            check(row, kernel, ("layer", "type", "phase", "n", "kernel_ns", *SUMS))
            assert row["bound"] == bound(kernel)
        (sums,) = rows_of(reports["a8"], "sums", key)
        launches = [k for k in process.launches if k["index"] != -2]
        assert sums["kernels"] == pytest.approx(len(launches) / len(process.steps))
        assert sums["kernel_ns"] == pytest.approx(process.of_step(process.kernels, "kernel_ns"), abs=len(expected))  # fmt: skip


def test_names(run):
    """A10 adds kernels up by name, and says for which part of the steps one runs."""
    reports, processes = run
    for key, process in processes.items():
        counted = process.model()["counted"]
        for row in rows_of(reports["a10"], "longest", key):
            mine = [k for k in process.kernels if k["name"] == row["name"]]
            assert row["calls"] == pytest.approx(sum(k["n"] for k in mine) / len(process.steps))
            assert row["layers"] == len({k["index"] for k in mine})
            for column in ("kernel_ns", *SUMS[:4]):
                wanted = process.of_step(mine, column)
                assert row[column] == (None if wanted is None else pytest.approx(wanted, abs=len(mine)))  # fmt: skip
            occupied, occupancy = (total(k[c] for k in mine) for c in ("occupied_ns", "occupancy_ns"))  # fmt: skip
            assert same(row["occupancy_share"], occupancy / occupied if occupied else None)
            run_at = [interval(k) for k in process.launches if k["name"] == row["name"]]
            steps = sum(end - begin for begin, end in counted)
            assert row["model_share"] == pytest.approx(at_once(counted, run_at) / steps)


def test_rooflines_and_precisions(run):
    """A9 and A14 have the points whose flops and bytes are known, A12 the flops of each precision."""
    reports, processes = run
    for key, process in processes.items():
        for row in rows_of(reports["a14"], "layers", key):
            (layer,) = (one for one in process.layers if one["index"] == row["index"])
            assert row["intensity"] == pytest.approx(layer["flops"] / layer["bytes"])
            assert row["flops_per_second"] == pytest.approx(
                1e9 * layer["flops"] / layer["kernel_ns"]
            )
        known = [k for k in process.kernels if k["flops"] and k["bytes"] and k["kernel_ns"]]
        points = reports["a9"].tables["kernels"]
        if points.height < 30:
            assert points.filter(trace=key[0], rank=key[1]).height == len(known)
        flops: dict[tuple[str, str], float] = defaultdict(float)
        for launch in process.launches:
            for precision, value in launch["by_precision"].items():
                flops[launch["phase"], precision] += value
        found = rows_of(reports["a12"], "precisions", key)
        assert {(row["phase"], row["precision"]): row["flops"] for row in found} == dict(flops)


def test_models(run):
    """A15 tells each process as a whole; A1 takes the slowest rank of each step."""
    reports, processes = run
    for key, process in processes.items():
        (row,), model = rows_of(reports["a15"], "models", key), process.model()
        check(
            row, model, ("n", "latency_ns", "kernel_ns", "kernels", "gpu_share", "flops", "bytes")
        )
        assert row["bound"] == bound(model)
        assert row["batch"] == int(key[0].removeprefix("b"))
    for name, ranks in RUNS.items():
        count = max(kind["steps"] for kind in ranks)
        slowest = sorted(
            max(p.steps[n]["dur"] for key, p in processes.items() if key[0] == name and n < len(p.steps))
            for n in range(count)
        )  # fmt: skip
        cut = 0 if count < 3 else max(count // 5, 1)
        wanted = slowest[cut : count - cut]
        (found,) = reports["a1"].tables["runs"].filter(run=name).to_dicts()
        assert found["latency_ns"] == pytest.approx(sum(wanted) / len(wanted), abs=0.5)
        assert (found["n"], found["ranks"]) == (count, len(ranks))


def test_what_is_left_out_is_counted(run):
    reports, processes = run
    for name in RUNS:
        mine = [process for key, process in processes.items() if key[0] == name]
        for place, launches in (
            ("in no step", [k for p in mine for k in p.in_no_step]),
            ("in layers of less than half of the steps", [k for p in mine for k in p.in_few_steps]),
        ):
            lines = [line for line in reports["a8"].findings if line.startswith(f"{name}: kernels launched {place}")]  # fmt: skip
            assert len(lines) == bool(launches)
            if launches:
                assert f" are left out: {len(launches)}, " in lines[0]


def test_every_process_is_named(run):
    """With several runs and ranks each sentence of a layer or kernel begins with its run and rank."""
    reports, processes = run
    for tool in ("a2", "a3", "a6", "a8", "a10", "a11", "a13"):
        for name, rank in processes:
            assert any(line.startswith(f"{name}, rank {rank}: ") for line in reports[tool].findings)
    assert pl.concat([reports["a8"].tables["sums"]]).height == len(processes)
