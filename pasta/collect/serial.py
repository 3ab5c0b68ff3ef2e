"""A serialised run of a program: one thing at a time, so that what contains what is in no doubt."""

from __future__ import annotations

VARIABLES = {
    "CUDA_LAUNCH_BLOCKING": "1",
    "HIP_LAUNCH_BLOCKING": "1",
    "AMD_SERIALIZE_KERNEL": "3",
    "AMD_SERIALIZE_COPY": "3",
    "OMP_NUM_THREADS": "1",
    "MKL_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
}
"""Environment of a serialised program: each launch waits for its kernel, each operator has one thread."""
