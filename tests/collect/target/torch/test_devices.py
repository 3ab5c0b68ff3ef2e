"""Cards of a PyTorch program are told by the id that NVML and CUPTI give them."""

from __future__ import annotations

import sys
from types import SimpleNamespace

import pytest

from pasta.collect.target.torch.devices import Devices


class Session:
    def __init__(self):
        self.written = []

    def rows(self, table, columns):
        assert table == "device"
        self.columns = columns
        return self.written


def torch_with(hip):
    about = SimpleNamespace(
        major=9, minor=0, total_memory=80 << 30, multi_processor_count=132,
        name="Card", uuid="f57bfe0f-2284", L2_cache_size=50 << 20,
    )  # fmt: skip
    cuda = SimpleNamespace(
        is_initialized=lambda: True,
        device_count=lambda: 1,
        get_device_properties=lambda _device: about,
    )
    return SimpleNamespace(cuda=cuda, version=SimpleNamespace(hip=hip))


@pytest.mark.parametrize(
    ("hip", "vendor", "uuid"),
    [(None, "nvidia", "GPU-f57bfe0f-2284"), ("6.4", "amd", "f57bfe0f-2284")],
)
def test_each_card_is_a_row_once(monkeypatch, hip, vendor, uuid):
    monkeypatch.setitem(sys.modules, "torch", torch_with(hip))
    session = Session()
    devices = Devices(session)
    devices.write_once()
    devices.write_once()
    (row,) = session.written
    known = dict(zip(session.columns, row, strict=True))
    assert (known["device"], known["vendor"], known["uuid"]) == (0, vendor, uuid)
    assert (known["multiprocessors"], known["compute_capability"]) == (132, "9.0")
