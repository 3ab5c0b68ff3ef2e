"""Whether the collector `cuda` saw the program's work on devices, told where the run ends."""

from __future__ import annotations

import pyarrow as pa

_FATAL = (
    "nothing of CUDA is recorded",
    "records of CUDA ended",
    "nothing of memory is recorded",
)
"""How reasons of the collector begin after which a timeline is empty or breaks off."""
_LEFT_OUT = "rows of kernel"
"""How the receiver's reason begins for kernels whose names were not wanted."""
NO_KERNEL = (
    "no kernel was recorded: the program launched none, a signal ended it before one was complete,"
    " or a tool among the command's took CUDA_INJECTION64_PATH for itself"
)


class DeviceSilence:
    """Listens to the rows of a recording for kernels, and for why there are none."""

    def __init__(self) -> None:
        self._kernels = False
        self._reasons: dict[str, None] = {}

    def __call__(self, table: str, rows: pa.Table) -> None:
        """Take new rows of a table."""
        if table == "kernel":
            self._kernels = self._kernels or rows.num_rows > 0
        elif table == "loss":
            told = [text for text in rows["reason"].to_pylist() if text]
            self._reasons.update({text: None for text in told if text.startswith(_FATAL)})
            self._kernels = self._kernels or any(text.startswith(_LEFT_OUT) for text in told)

    @property
    def reasons(self) -> str:
        """What the collector said that ends or prevents its timeline; empty: nothing."""
        return "; ".join(self._reasons)

    @property
    def unexplained(self) -> bool:
        """Whether there is neither a kernel nor a reason."""
        return not self._kernels and not self._reasons
