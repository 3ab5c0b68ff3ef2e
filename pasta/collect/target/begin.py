"""Where recording begins in a program: right before it imports pasta, right after it imports torch."""

from __future__ import annotations

import sys
from typing import Any

from . import annotate, region
from .session import Session, current

_SHARED = {
    "pasta.collect.target.annotate": annotate,
    "pasta.collect.target.region": region,
}


def begin() -> Session | None:
    """Begin the session, and let `import pasta` find the modules by which programs reach it."""
    for name, module in _SHARED.items():
        sys.modules.setdefault(name, module)
    session = current()
    if session is not None and "cuda.memory" in session.settings:
        session.guarded("device memory", _begin_device_memory, session)
    return session


def after_import(name: str) -> None:
    """Let what records the module `name` begin, now that it is there."""
    session = begin()
    if session is None:
        return
    settings: dict[str, Any] | None = session.settings.get(name)
    if name == "torch" and settings is not None:
        session.guarded("torch", _begin_torch, session, settings)


def _begin_device_memory(session: Session) -> None:
    from .device_memory import DeviceMemory

    if not any(isinstance(collector, DeviceMemory) for collector in session.collectors):
        session.add_collector(DeviceMemory())


def _begin_torch(session: Session, settings: dict[str, Any]) -> None:
    from .torch.collector import TorchCollector

    session.add_collector(TorchCollector(session, settings))
