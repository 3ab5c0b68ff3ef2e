"""Files of PyTorch."""

from __future__ import annotations

import json
import pickle
from typing import Any

from tests.fuzz.content import Content, one_file

_PID = 4242
_COMMUNICATION = {
    "Collective name": "_allgather_base",
    "In msg nelems": 100,
    "Out msg nelems": 800,
    "dtype": "BFloat16",
    "Process Group Name": "3",
    "Process Group Ranks": "[0, 1, 2]",
}


def _event(
    cat: str, name: str, ts: float, dur: float, *, pid: int = _PID, tid: int = _PID, **args: Any
) -> dict[str, Any]:
    event = {"ph": "X", "cat": cat, "name": name, "pid": pid, "tid": tid, "ts": ts, "dur": dur}
    return {**event, "args": args}


_EVENTS = [
    _event("user_annotation", "ProfilerStep#1", 90, 1000),
    _event("cpu_op", "aten::mm", 100, 50, **{"External id": 23, "Input Dims": [[8, 4], [], [4]], "Input type": ["float", "", "int"], "Call stack": "a.py(3): f;b.py(1): g", "Sequence number": 5}),
    _event("python_function", "train.py(3): step", 101.5, 40, **{"Python id": 1, "Python parent id": None}),
    _event("cuda_runtime", "cudaLaunchKernel", 110, 5, correlation=7, **{"External id": 23}),
    _event("kernel", "gemm", 120.5, 2.25, pid=0, tid=7, correlation=7, device=0, context=1, stream=7, grid=[8, 16, 5], block=[128, 2, 1], **{"registers per thread": 12, "shared memory": 64, "External id": 23}),
    _event("kernel", "ncclDevKernel_AllGather_RING_LL(args)", 130, 5, pid=0, tid=9, device=0, stream=9, correlation=8, **_COMMUNICATION),
    _event("gpu_memcpy", "Memcpy HtoD (Pageable -> Device)", 140, 1, pid=0, tid=7, device=0, stream=7, correlation=9, bytes=64),
    _event("cuda_sync", "Stream Wait Event", 150, 1, pid=0, tid=7, device=0, stream=7, cuda_sync_kind="Stream Wait Event", wait_on_stream=3, wait_on_cuda_event_id=5, wait_on_cuda_event_record_corr_id=2),
    {"ph": "i", "cat": "cpu_instant_event", "name": "[memory]", "s": "t", "pid": _PID, "tid": _PID, "ts": 105, "args": {"Addr": 4096, "Bytes": 512, "Device Id": 0, "Device Type": 1, "Total Allocated": 512, "Total Reserved": 2048}},
    {"ph": "i", "cat": "cpu_instant_event", "name": "[memory]", "s": "t", "pid": _PID, "tid": _PID, "ts": 160, "args": {"Addr": 4096, "Bytes": -512, "Device Id": 0, "Device Type": 1}},
    {"ph": "B", "cat": "cpu_op", "name": "long", "pid": _PID, "tid": 9, "ts": 1},
    {"ph": "E", "name": "long", "pid": _PID, "tid": 9, "ts": 900},
    {"ph": "s", "id": 7, "pid": _PID, "tid": _PID, "ts": 110, "cat": "ac2g", "name": "ac2g"},
    {"ph": "M", "name": "process_name", "pid": _PID, "tid": 0, "ts": 1, "args": {"name": "python"}},
    {"ph": "M", "name": "thread_name", "pid": _PID, "tid": _PID, "ts": 1, "args": {"name": "thread 4242 (python)"}},
]  # fmt: skip
_KINETO = {
    "schemaVersion": 1,
    "deviceProperties": [{"id": 0, "name": "H100", "totalGlobalMem": 1 << 36, "computeMajor": 9, "computeMinor": 0, "numSms": 132}],
    "distributedInfo": {"backend": "nccl", "rank": 0, "world_size": 3},
    "displayTimeUnit": "ms",
    "baseTimeNanoseconds": 1751410836000000001,
    "traceEvents": _EVENTS,
}  # fmt: skip
_OLD_EVENTS = [
    {"ph": "X", "cat": "Operator", "name": "aten::add", "pid": 5, "tid": "5", "ts": 1, "dur": 9, "args": {"External id": 2}},
    {"ph": "X", "cat": "Kernel", "name": "add", "pid": 0, "tid": "stream 7", "ts": 3, "dur": 2, "args": {"correlation": 4, "external id": 2}},
]  # fmt: skip


def kineto() -> list[Content]:
    """Return traces of today and of 2021, and a bare array."""
    old = {"traceEvents": _OLD_EVENTS, "displayTimeUnit": "ns"}
    kinds = [_KINETO, {**_KINETO, "traceEvents": _EVENTS[1:5]}, old, _EVENTS[3:9]]
    return [one_file(json.dumps(document)) for document in kinds]


def execution_twin() -> bytes:
    """Return the Kineto trace of the operators of `torch_execution`."""
    events = [
        _event("user_annotation", "forward", 10, 90, pid=7, tid=70, **{"External id": 1}),
        _event("cpu_op", "aten::linear", 20, 40, pid=7, tid=70, **{"External id": 2}),
        _event("cpu_op", "aten::mm", 30, 20, pid=7, tid=70, **{"External id": 4}),
        _event("cpu_op", "aten::add_", 70, 10, pid=7, tid=70, **{"External id": 5}),
    ]
    return json.dumps({"traceEvents": events}).encode()


def _node(
    number: int, name: str, parent: int, schema: str, *operands: list[tuple[int, list[int]]]
) -> dict[str, Any]:
    def listed(operands: list[tuple[int, list[int]]]) -> dict[str, Any]:
        return {
            "values": [[100 + s, s, 0, 8, 4, "cuda:0"] for s, _ in operands],
            "shapes": [shape for _, shape in operands],
            "types": ["Tensor(float)"] * len(operands),
            "strides": [[4, 1]] * len(operands),
        }

    attributes = {"rf_id": number, "seq_id": -1, "tid": 1, "op_schema": schema}
    return {
        "id": number,
        "name": name,
        "ctrl_deps": parent,
        "inputs": listed(operands[0]),
        "outputs": listed(operands[1]),
        "attrs": [{"name": key, "type": "x", "value": value} for key, value in attributes.items()],
    }


def torch_execution() -> list[Content]:
    """Return an execution trace."""
    mm = "aten::mm(Tensor self, Tensor mat2) -> Tensor"
    add = "aten::add_.Tensor(Tensor(a!) self, Tensor other, *, Scalar alpha=1) -> Tensor(a!)"
    nodes = [
        _node(2, "[pytorch|profiler|execution_trace|thread]", 1, "", [], []),
        _node(12, "aten::mm", 10, mm, [(6, [2, 4]), (5, [4, 8])], [(7, [2, 8])]),
        _node(10, "aten::linear", 3, mm, [(6, [2, 4]), (5, [8, 4])], [(7, [2, 8])]),
        _node(20, "aten::add_", 3, add, [(7, [2, 8]), (8, [2, 8])], [(7, [2, 8])]),
        _node(3, "forward", 2, "", [], []),
        _node(1, "[pytorch|profiler|execution_trace|process]", 1, "", [], []),
    ]
    document = {"schema": "1.1.1-chakra.0.0.4", "pid": 7, "time": "", "start_ts": 1, "nodes": nodes}
    return [one_file(json.dumps(document))]


def _snapshot() -> dict[str, Any]:
    frames = [
        {"name": "f", "filename": "x.py", "line": 3},
        {"name": "g", "filename": "", "line": 0},
    ]
    common = {"stream": 0, "time_us": 1700000000000000, "frames": frames}
    trace = [
        {"action": "segment_alloc", "addr": 4096, "size": 8192, **common},
        {"action": "alloc", "addr": 4096, "size": 512, **common},
        {"action": "alloc", "addr": 4608, "size": 100, **common, "time_us": 1700000000000005},
        {"action": "free_requested", "addr": 4096, "size": 512, **common},
        {"action": "free_completed", "addr": 4096, "size": 512, **common},
        {"action": "oom", "size": 1 << 40, "device_free": 77, **common},
        {"action": "snapshot", "addr": 0, "size": 0, **common},
    ]
    block = {
        "address": 4608,
        "size": 512,
        "requested_size": 100,
        "state": "active_allocated",
        "frames": frames,
    }
    segment = {
        "device": 0,
        "address": 4096,
        "total_size": 8192,
        "stream": 0,
        "segment_type": "small",
        "blocks": [block],
        "frames": frames,
    }
    annotations = [
        {"stage": "START", "name": "step", "device": 0, "time_us": 1700000000000001},
        {"stage": "END", "name": "step", "device": 0, "time_us": 1700000000000009},
    ]
    return {
        "segments": [segment],
        "device_traces": [trace, []],
        "external_annotations": annotations,
        "allocator_settings": {"a": "1"},
    }


def torch_memory() -> list[Content]:
    """Return snapshots as several protocols write them, with and without a history."""
    snapshot = _snapshot()
    bare = {"segments": snapshot["segments"], "device_traces": [[]]}
    old = [
        {
            **snapshot["segments"][0],
            "blocks": [
                {
                    "size": 512,
                    "state": "active_allocated",
                    "history": [{"real_size": 100, "addr": 4608, "frames": []}],
                }
            ],
        }
    ]
    made = [pickle.dumps(snapshot, protocol=protocol) for protocol in (0, 2, 4, 5)]
    made += [pickle.dumps(bare, protocol=4), pickle.dumps(old, protocol=4)]
    return [one_file(data, "pickle") for data in made]


def torch_memory_timeline() -> list[Content]:
    """Return both forms of a timeline."""
    raw = [[-1, 1, 37888, 7], [100, 2, 512, 0], [120, 3, 512, 0], [130, 2, 64, 5], [150, 4, 512, 0]]
    plot = [[1, 2, 3], [[0, 10, 0, 0, 0, 0, 0, 0, 5], [0, 10, 0, 7, 0, 0, 0, 0, 5], [0] * 9]]
    return [one_file(json.dumps(raw)), one_file(json.dumps(plot))]
