"""Files of AMD's tools."""

from __future__ import annotations

import json

from tests.collect.importers import rocm_help as rocm
from tests.collect.importers import test_rocprofv3_csv as csv_tests
from tests.fuzz.content import Content, one_file


def rocprofv3_json() -> list[Content]:
    """Return recordings of rocprofv3."""
    events = {
        "kernel_dispatch": [rocm.kernel(4, 5_000, 5_900, 11), rocm.kernel(5, 5_900, 6_000, 7, kernel_id=3)],
        "hip_api": [
            rocm.call(rocm.HIP, 0, 1_100, 1_200, 6, retval={"hipError_t_retval": 2}),
            rocm.call(rocm.HIP, 2, 1_500, 1_900, 7),
        ],
        "marker_api": [rocm.call(rocm.MARKER, 1, 1_050, 3_000, 41), rocm.call(rocm.MARKER, 0, 1_300, 1_300, 42)],
        "memory_copy": [
            rocm.record(7_000, 7_100, 9, kind=rocm.COPY, operation=1, thread_id=8, bytes=64,
                        src_agent_id=rocm.handle(rocm.CPU), dst_agent_id=rocm.handle(rocm.GPU)),
        ],
        "memory_allocation": [
            rocm.record(800, 900, 3, kind=rocm.ALLOCATION, operation=1, thread_id=8, address="0x1000",
                        allocation_size=64, agent_id=rocm.handle(rocm.GPU)),
        ],
        "counter_collection": [
            {"thread_id": 8, "dispatch_data": {"dispatch_info": rocm.launch(1, 4), **rocm.record(1, 2, 11)},
             "records": [{"counter_id": rocm.handle(9), "value": 12.0}]},
        ],
    }  # fmt: skip
    documents = [
        rocm.document(rocm.process(**events)),
        rocm.document(rocm.process(), rocm.process(78, kernel_dispatch=events["kernel_dispatch"])),
    ]
    return [one_file(json.dumps(document)) for document in documents]


def rocprofv3_csv() -> list[Content]:
    """Return the files of one process, and each of several kinds alone."""
    alone = {"kernel_trace": csv_tests.KERNELS_62, "counter_collection": csv_tests.COUNTERS}
    files = {f"77_{kind}.csv": text.encode() for kind, text in (csv_tests.ALL | alone).items()}
    together = {f"77_{kind}.csv": text.encode() for kind, text in csv_tests.ALL.items()}
    single = [Content({name: data}, "lines") for name, data in files.items()]
    return [*single, *[Content(together, "lines", folder=True)] * 3]
