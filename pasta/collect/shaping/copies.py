"""What a copy is called, by where its bytes come from and go to."""

from __future__ import annotations

_HOST = -1


def copy_kind(source: int, destination: int) -> str:
    """Return `HtoD`, `DtoH`, `DtoD`, `PtoP` or `HtoH` from two device ordinals; -1 is the host."""
    if source == _HOST:
        return "HtoH" if destination == _HOST else "HtoD"
    if destination == _HOST:
        return "DtoH"
    return "DtoD" if source == destination else "PtoP"


def copy_device(source: int, destination: int) -> int:
    """Return the device that a copy counts for: where it goes to, else where it comes from."""
    return destination if destination != _HOST else source
