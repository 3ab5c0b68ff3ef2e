"""Accesses of warps in small programs whose memory behaviour is known, and of programs at random."""

from __future__ import annotations

from hypothesis import Phase, settings
from hypothesis import strategies as st

KERNELS = [
    {"device": 0, "launch_id": launch, "ts": 10 * launch, "name": name, "grid_x": 2, "grid_y": 1, "grid_z": 1}
    for launch, name in ((1, "first"), (2, "second"), (3, "first"))
]  # fmt: skip
NAMES = {row["launch_id"]: row["name"] for row in KERNELS}
BASE = 0x7F00_0000_0000


def request(number, addresses, *, launch=1, op=0, pc=16, size=4, space=0, warp=0, block=0):
    """One access for each lane; an address of None is a lane that takes no part."""
    return [
        {"device": 0, "launch_id": launch, "request": number, "lane": lane, "pc": pc, "address": address, "bytes": size, "op": op, "space": space, "warp": warp, "block": block}
        for lane, address in enumerate(addresses)
        if address is not None
    ]  # fmt: skip


def row_of(start, lanes=32, stride=4):
    """The addresses of lanes side by side, or `stride` bytes apart."""
    return [start + stride * lane for lane in range(lanes)]


_REQUEST = st.fixed_dictionaries(
    {
        "addresses": st.lists(st.none() | st.integers(0, 30), min_size=1, max_size=4),
        "launch": st.integers(1, 3),
        "op": st.integers(0, 3),
        "pc": st.sampled_from([16, 32]),
        "size": st.sampled_from([4, 8, 16]),
        "space": st.sampled_from([0, 0, 0, 1]),
        "warp": st.integers(0, 1),
        "block": st.integers(0, 1),
    }
)


def _accesses(requests):
    found = []
    for number, given in enumerate(requests):
        addresses = [None if a is None else BASE + 4 * a for a in given["addresses"]]
        found += request(number, **{**given, "addresses": addresses})
    return sorted(found, key=lambda row: (row["launch_id"], row["request"], row["lane"]))


PROGRAMS = st.lists(_REQUEST, min_size=5, max_size=25).map(_accesses).filter(bool)
"""Accesses in the order of a trace: few addresses, all kinds."""


def granules(row, size):
    """The numbers of the granules of `size` bytes that an access lies in."""
    return range(row["address"] // size, (row["address"] + row["bytes"] - 1) // size + 1)


FEW = settings(max_examples=4, phases=[Phase.explicit, Phase.generate])
"""For tests that run a whole tool on each program."""
