"""Facts of a machine with a GPU and all of CUDA, to be changed by tests."""

from __future__ import annotations

from pathlib import Path

from pasta.doctor.facts import Facts

CARD = {"name": "H100", "compute_capability": "9.0", "memory_bytes": 80 << 30}
WHOLE = Facts(
    nvml={"driver": "580.95", "cuda": "13.0", "cards": [CARD]},
    cupti={"version": 130001, "cuda": "", "refused": ""},
    module="NVRM version: 580.95",
    cupti_path=Path("/cuda/lib/libcupti.so.13"),
    sanitizer_path=Path("/cuda/compute-sanitizer/libsanitizer-public.so"),
    nvcc=Path("/cuda/bin/nvcc"),
)
"""Everything is there."""
BARE = Facts(
    nvml={"error": "libnvidia-ml.so.1: cannot open"},
    cupti={},
    module="",
    cupti_path=None,
    sanitizer_path=None,
    nvcc=None,
)
"""Nothing is there."""
