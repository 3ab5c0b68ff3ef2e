"""Which cards CUDA shows under its environment variables."""

from __future__ import annotations

from typing import NamedTuple

import pytest

from pasta.collect.nvml.visible import visible


class Known(NamedTuple):
    name: str
    uuid: str


ALIKE = [Known("H100", f"GPU-{n}{n}-x") for n in range(4)]
UNLIKE = [Known("T4", "GPU-a1"), Known("H100", "GPU-b2")]


@pytest.mark.parametrize(
    ("entries", "shown"),
    [
        (None, [0, 1, 2, 3]),
        ("", []),
        ("-1", []),
        ("2,0", [2, 0]),
        (" 1 , 3", [1, 3]),
        ("1,9,2", [1]),
        ("1,-1,2", [1]),
        ("2,2", [2]),
        ("GPU-33,0", [3, 0]),
        ("GPU-", []),
        ("GPU-77", []),
        ("MIG-1234", [0, 1, 2, 3]),
    ],
)
def test_the_order_and_the_end_are_cudas(entries, shown):
    environment = {} if entries is None else {"CUDA_VISIBLE_DEVICES": entries}
    assert visible(ALIKE, environment) == shown


def test_numbers_of_unlike_cards_mean_something_only_by_bus():
    numbers = {"CUDA_VISIBLE_DEVICES": "1"}
    assert visible(UNLIKE, numbers) == [0, 1]
    assert visible(UNLIKE, {**numbers, "CUDA_DEVICE_ORDER": "PCI_BUS_ID"}) == [1]
    assert visible(UNLIKE, {"CUDA_VISIBLE_DEVICES": "GPU-b"}) == [1]
