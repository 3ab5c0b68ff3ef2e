"""Large files in the formats of other tools, made of nothing but numbers: inputs for `importers.py make`.

Every function writes a file of about the size that is asked for, and tells what a long recording would: few names,
many events, and as many different call stacks as the format lets a long recording have.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from .amd import make_rocpd3, make_rocpd4, make_rocprofv3_csv, make_rpd
from .documents import make_proton, make_speedscope, make_speedscope_evented
from .messages import make_perfetto, make_xplane
from .pytorch import make_torch_execution, make_torch_memory
from .texts import make_collapsed, make_nvbit, make_perf_script, make_triton_log

MAKE: dict[str, Callable[[Path, int, int], None]] = {
    "torch_execution": make_torch_execution,
    "torch_memory": make_torch_memory,
    "rocpd3": make_rocpd3,
    "rocpd4": make_rocpd4,
    "rpd": make_rpd,
    "rocprofv3_csv": make_rocprofv3_csv,
    "nvbit": make_nvbit,
    "perf_script": make_perf_script,
    "collapsed": make_collapsed,
    "triton_log": make_triton_log,
    "speedscope": make_speedscope,
    "speedscope_evented": make_speedscope_evented,
    "proton": make_proton,
    "perfetto": make_perfetto,
    "xplane": make_xplane,
}
"""Format -> what makes a file of it, or a folder of files, given path, size in bytes and seed."""
