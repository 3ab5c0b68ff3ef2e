"""The collector `cuda` on the launcher's side: the environment that loads its library."""

from __future__ import annotations

from pasta.collect.native_library import activity_library
from pasta.collect.toolkits import find_cupti


def environment() -> dict[str, str]:
    """Return the variables by which CUDA and NVTX load the collector into programs that use them.

    Raises:
        CollectError: the collector was not built with pasta and cannot be compiled.
    """
    library = activity_library()
    variables = {"CUDA_INJECTION64_PATH": library, "NVTX_INJECTION64_PATH": library}
    cupti = find_cupti()
    if cupti is not None:
        variables["PASTA_CUPTI"] = str(cupti)
    return variables
