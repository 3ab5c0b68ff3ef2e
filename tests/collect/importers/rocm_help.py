"""A small recording of rocprofv3, as its JSON."""

from __future__ import annotations

from typing import Any

CPU, GPU, OTHER_GPU = 100, 201, 200
HIP, COMPILER, HSA, MARKER, COPY, DISPATCH, SCRATCH, ALLOCATION, RCCL = range(1, 10)
OPERATIONS = [
    {"kind": "NONE", "operations": []},
    {"kind": "HIP_RUNTIME_API", "operations": ["hipMalloc", "hipLaunchKernel", "hipGraphLaunch"]},
    {"kind": "HIP_COMPILER_API", "operations": ["__hipPushCallConfiguration"]},
    {"kind": "HSA_CORE_API", "operations": ["hsa_init"]},
    {"kind": "MARKER_CORE_API", "operations": ["roctxMarkA", "roctxRangePushA", "roctxRangePop"]},
    {"kind": "MEMORY_COPY", "operations": ["MEMORY_COPY_NONE", "MEMORY_COPY_HOST_TO_DEVICE"]},
    {"kind": "KERNEL_DISPATCH", "operations": ["NONE", "ENQUEUE", "COMPLETE"]},
    {"kind": "SCRATCH_MEMORY", "operations": ["NONE", "SCRATCH_MEMORY_ALLOC"]},
    {
        "kind": "MEMORY_ALLOCATION",
        "operations": ["NONE", "MEMORY_ALLOCATION_ALLOCATE", "MEMORY_ALLOCATION_FREE"],
    },
    {"kind": "RCCL_API", "operations": ["ncclAllReduce"]},
]
SYMBOLS = [
    (1, "_Z3addPfi.kd", "add(float*, int)", 64, 16, 4),
    (2, "_Z3mulPfi.kd", "", 0, 8, 0),
    (3, "nccl.kd", "ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgs)", 0, 8, 0),
]


def handle(number: int) -> dict[str, int]:
    return {"handle": number}


def record(start: int, end: int, correlation: int = 0, **more: Any) -> dict[str, Any]:
    return {
        "size": 64,
        "correlation_id": {"internal": correlation, "external": 0},
        "start_timestamp": start,
        "end_timestamp": end,
        **more,
    }


def launch(kernel: int, dispatch: int, **more: Any) -> dict[str, Any]:
    return {
        "agent_id": handle(GPU),
        "queue_id": handle(3),
        "kernel_id": kernel,
        "dispatch_id": dispatch,
        "private_segment_size": 16,
        "group_segment_size": 64 if kernel == 1 else 0,
        "workgroup_size": {"x": 64, "y": 2, "z": 1},
        "grid_size": {"x": 100, "y": 4, "z": 1},
        **more,
    }


def kernel(dispatch: int, start: int, end: int, correlation: int, **more: Any) -> dict[str, Any]:
    number = more.pop("kernel_id", 1)
    info = launch(number, dispatch, **more.pop("info", {}))
    told = {"thread_id": 8, "dispatch_info": info, "stream_id": handle(5), **more}
    return record(start, end, correlation, kind=DISPATCH, operation=2, **told)


def call(
    kind: int, operation: int, start: int, end: int, correlation: int = 0, **more: Any
) -> dict[str, Any]:
    return record(start, end, correlation, kind=kind, operation=operation, thread_id=8, **more)


def agent(number: int, kind: int, node: int, name: str) -> dict[str, Any]:
    return {
        "size": 312,
        "id": handle(number),
        "type": kind,
        "node_id": node,
        "name": name,
        "product_name": f"AMD {name}",
        "cu_count": 304,
        "uuid": {"bytes": {f"value{place}": place for place in range(16)}},
        "mem_banks": [{"heap_type": 1, "size_in_bytes": 1 << 37}],
        "caches": [
            {"size": 32, "level": 1},
            {"size": 4096, "level": 2},
            {"size": 4096, "level": 2},
        ],
    }


def process(pid: int = 77, **arrays: list[Any]) -> dict[str, Any]:
    """Return one process; arrays are of `buffer_records`, but `counter_collection`."""
    counted = arrays.pop("counter_collection", [])
    return {
        "metadata": {
            "node": {"hostname": "here"},
            "pid": pid,
            "init_time": 1_000,
            "fini_time": 99_000,
            "command": ["./prog", "-v"],
        },
        "agents": [
            agent(CPU, 1, 0, "epyc"),
            agent(GPU, 2, 2, "gfx950"),
            agent(OTHER_GPU, 2, 1, "gfx942"),
        ],
        "counters": [{"id": handle(9), "name": "SQ_WAVES"}],
        "strings": {
            "callback_records": [],
            "buffer_records": OPERATIONS,
            "marker_api": [{"key": 41, "value": "step é"}, {"key": 42, "value": "mark"}],
        },
        "kernel_symbols": [
            {
                "size": 88,
                "kernel_id": number,
                "kernel_name": mangled,
                "group_segment_size": shared,
                "arch_vgpr_count": vector,
                "accum_vgpr_count": accumulation,
                "formatted_kernel_name": name,
            }
            for number, mangled, name, shared, vector, accumulation in SYMBOLS
        ],
        "callback_records": {"counter_collection": counted},
        "buffer_records": arrays,
    }


def document(*processes: dict[str, Any]) -> dict[str, Any]:
    return {"rocprofiler-sdk-tool": list(processes)}
