"""Large inputs: recordings of PyTorch."""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from .writing import json_text, write_until

_LINEAR = "aten::linear(Tensor input, Tensor weight, Tensor? bias=None) -> Tensor"
_TRANSPOSE = "aten::t(Tensor(a) self) -> Tensor(a)"
_PRODUCT = "aten::addmm(Tensor self, Tensor mat1, Tensor mat2) -> Tensor"
_ADD = "aten::add_.Tensor(Tensor(a!) self, Tensor other, *, Scalar alpha=1) -> Tensor(a!)"
_STEP_LAYERS = 50
_STORAGES = 2_000


def make_torch_execution(folder: Path, size: int, seed: int) -> None:
    """Make an execution trace of `size` and the Kineto file of the same run, in a folder."""
    folder.mkdir(parents=True, exist_ok=True)
    chance = random.Random(seed)  # noqa: S311 - not for secrets
    with (folder / "kineto.json").open("wb", buffering=1 << 22) as kineto:
        kineto.write(b'{"schemaVersion":1,"traceEvents":[\n')

        def nodes() -> Iterator[bytes]:
            yield b'{"schema":"1.1.1-chakra.0.0.4","pid":7,"time":"","start_ts":1,"nodes":[\n'
            yield json_text(_node(2, "[pytorch|profiler|execution_trace|thread]", 1, "", (), ()))
            number, ts, comma = 3, 1_000, b""
            while True:
                events, written, number, ts = _step(number, ts, chance)
                for event in events:
                    kineto.write(comma + json_text(event))
                    comma = b",\n"
                yield b"".join(b",\n" + json_text(node) for node in written)

        write_until(folder / "execution_trace.json", size, nodes(), b"]}\n")
        kineto.write(b"]}\n")


def _step(number: int, ts: int, chance: random.Random) -> tuple[list[Any], list[Any], int, int]:
    """Return the events and nodes of one step, and the next number and time."""
    step, begun = number, ts
    events, nodes = [], []
    number, ts = number + 1, ts + 10
    for layer in range(_STEP_LAYERS):
        weight, bias = 10 + layer, 100 + layer
        given, made = (chance.randrange(1_000, 1_000 + _STORAGES) for _ in range(2))
        linear, transpose, product, add = range(number, number + 4)
        sequence = number
        operands = ((given, (64, 512)), (weight, (512, 512)), (bias, (512,)))
        view, result = (weight, (512, 512)), (made, (64, 512))
        nodes += [
            _node(transpose, "aten::t", linear, _TRANSPOSE, operands[1:2], (view,)),
            _node(product, "aten::addmm", linear, _PRODUCT, (operands[2], operands[0], view), (result,)),
            _node(linear, "aten::linear", step, _LINEAR, operands, (result,), sequence),
            _node(add, "aten::add_", step, _ADD, (result, operands[0]), (result,), sequence + 1),
        ]  # fmt: skip
        events += [
            _operator("aten::linear", ts, 40, linear, sequence),
            _operator("aten::t", ts + 2, 5, transpose),
            _operator("aten::addmm", ts + 10, 25, product),
            _operator("aten::add_", ts + 42, 10, add, sequence + 1),
        ]
        number, ts = number + 4, ts + 55
    nodes.append(_node(step, "forward", 2, "", (), ()))
    events.append(_operator("forward", begun, ts - begun, step, category="user_annotation"))
    return events, nodes, number, ts + 10


def _node(  # noqa: PLR0917 - as the format has them
    number: int,
    name: str,
    parent: int,
    schema: str,
    inputs: Iterable[Any],
    outputs: Iterable[Any],
    sequence: int = -1,
) -> dict[str, Any]:
    def listed(operands: Iterable[Any]) -> dict[str, Any]:
        known = list(operands)
        shapes = [list(shape) for _, shape in known]
        return {
            "values": [
                [number * 8 + at, storage, 0, _product(shape), 4, "cuda:0"]
                for at, (storage, shape) in enumerate(known)
            ],
            "shapes": shapes,
            "types": ["Tensor(float)"] * len(known),
            "strides": [
                [_product(shape[at + 1 :]) for at in range(len(shape))] for shape in shapes
            ],
        }

    attributes = {
        "rf_id": number, "fw_parent": 0, "seq_id": sequence, "scope": 0, "tid": 1, "fw_tid": 0,
        "op_schema": schema, "kernel_backend": "", "kernel_file": "",
    }  # fmt: skip
    return {
        "id": number,
        "name": name,
        "ctrl_deps": parent,
        "inputs": listed(inputs),
        "outputs": listed(outputs),
        "attrs": [{"name": key, "type": "uint64", "value": value} for key, value in attributes.items()],
    }  # fmt: skip


def _product(sizes: Iterable[int]) -> int:
    found = 1
    for size in sizes:
        found *= size
    return found


def _operator(  # noqa: PLR0917 - as the format has them
    name: str,
    ts: int,
    dur: int,
    number: int,
    sequence: int | None = None,
    category: str = "cpu_op",
) -> dict[str, Any]:
    more = {} if sequence is None else {"Sequence number": sequence}
    arguments = {"External id": number, **more}
    head = {"ph": "X", "cat": category, "name": name, "pid": 7, "tid": 70}
    return {**head, "ts": ts, "dur": dur, "args": arguments}


def make_torch_memory(path: Path, size: int, seed: int) -> None:
    """Make a memory snapshot, a pickle: allocations and releases of one device, and their stacks."""
    import pickle

    chance = random.Random(seed)  # noqa: S311 - not for secrets
    lines = [{"name": f"f{at}", "filename": "/m/model.py", "line": at} for at in range(2_000)]
    entries: list[Any] = []
    live: list[tuple[int, int]] = []
    entry_bytes = 55
    for at in range(size // entry_bytes):
        told = {"stream": 0, "time_us": 1_700_000_000_000_000 + at}
        if live and (len(live) > 5_000 or chance.random() < 0.5):
            place = chance.randrange(len(live))
            live[place], live[-1] = live[-1], live[place]
            address, held = live.pop()
            entries.append({"action": "free_requested", "addr": address, "size": held, **told})
        else:
            frames = [lines[(at * step) % 2_000] for step in (1, 3, 7)]
            address, held = 0x7F0000000000 + at * 512, 512 * chance.randrange(1, 64)
            live.append((address, held))
            entries.append({"action": "alloc", "addr": address, "size": held, "frames": frames, **told})  # fmt: skip
    with path.open("wb") as file:
        pickle.dump({"segments": [], "device_traces": [entries]}, file)
