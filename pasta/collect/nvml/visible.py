"""Which cards a program sees, and as which ordinals, by CUDA's environment variables."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol


class _Known(Protocol):
    name: str
    uuid: str


def visible(cards: Sequence[_Known], environment: Mapping[str, str]) -> list[int]:
    """Return the indices of the cards that CUDA shows to a program, in its order.

    CUDA ends the list at the first entry that it does not know. Where it cannot be told what an
    entry means (numbers of unlike cards, which CUDA orders by speed; parts of a card), all cards
    are taken to be visible.

    Args:
        cards: all cards in the order of the PCI bus.
        environment: the program's environment.
    """
    entries = environment.get("CUDA_VISIBLE_DEVICES")
    everything = list(range(len(cards)))
    by_bus = environment.get("CUDA_DEVICE_ORDER") == "PCI_BUS_ID"
    numbers_are_known = by_bus or len({card.name for card in cards}) <= 1
    if entries is None:
        return everything
    found: list[int] = []
    for entry in map(str.strip, entries.split(",")):
        if entry.startswith("MIG-") or (entry.isdecimal() and not numbers_are_known):
            return everything
        index = _index(entry, cards)
        if index is None:
            break
        if index not in found:
            found.append(index)
    return found


def _index(entry: str, cards: Sequence[_Known]) -> int | None:
    if entry.isdecimal():
        return int(entry) if int(entry) < len(cards) else None
    starts = [index for index, card in enumerate(cards) if entry and card.uuid.startswith(entry)]
    return starts[0] if len(starts) == 1 else None
