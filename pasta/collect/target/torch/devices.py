"""The accelerators that a PyTorch program uses."""

from __future__ import annotations

from ..session import Session

_COLUMNS = (
    "device",
    "vendor",
    "name",
    "uuid",
    "memory_bytes",
    "multiprocessors",
    "compute_capability",
    "cache_bytes",
)


class Devices:
    """Writes a row for each device, once the program has initialised CUDA or HIP."""

    def __init__(self, session: Session) -> None:
        self._rows = session.rows("device", _COLUMNS)
        self._written = False

    def write_once(self) -> None:
        """Write the rows if that can be done without initialising anything."""
        import torch

        if self._written or not torch.cuda.is_initialized():
            return
        self._written = True
        vendor = "amd" if torch.version.hip else "nvidia"
        prefix = "" if torch.version.hip else "GPU-"  # as NVML and CUPTI tell the card's id
        for device in range(torch.cuda.device_count()):
            about = torch.cuda.get_device_properties(device)
            capability = f"{about.major}.{about.minor}"
            size = (about.total_memory, about.multi_processor_count)
            self._rows.append(
                (
                    device,
                    vendor,
                    about.name,
                    f"{prefix}{about.uuid}",
                    *size,
                    capability,
                    about.L2_cache_size,
                )
            )
