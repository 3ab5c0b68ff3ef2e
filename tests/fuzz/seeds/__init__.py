"""Small valid files of each importer, from which the fuzzed ones are made."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from tests.fuzz.content import Content
from tests.fuzz.seeds.amd import rocprofv3_csv, rocprofv3_json
from tests.fuzz.seeds.amd_databases import rocpd, rocprof_compute_csv, rocprof_compute_db, rpd
from tests.fuzz.seeds.host import carm_csv, collapsed, perf_script, perf_stat, speedscope
from tests.fuzz.seeds.nsight import nsys
from tests.fuzz.seeds.nvidia import ncu_csv
from tests.fuzz.seeds.pytorch import kineto, torch_execution, torch_memory, torch_memory_timeline
from tests.fuzz.seeds.timelines import chrome_json, perfetto, xplane
from tests.fuzz.seeds.triton import nvbit_text, proton, triton_log

_MAKERS: tuple[Callable[[], list[Content]], ...] = (
    carm_csv,
    chrome_json,
    collapsed,
    kineto,
    ncu_csv,
    nsys,
    nvbit_text,
    perf_script,
    perf_stat,
    perfetto,
    proton,
    rocpd,
    rocprof_compute_csv,
    rocprof_compute_db,
    rocprofv3_csv,
    rocprofv3_json,
    rpd,
    speedscope,
    torch_execution,
    torch_memory,
    torch_memory_timeline,
    triton_log,
    xplane,
)

SEEDS: Mapping[str, Callable[[], list[Content]]] = {maker.__name__: maker for maker in _MAKERS}
"""By importer, whose name the function has."""
