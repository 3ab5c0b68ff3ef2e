"""What an execution trace tells of collectives: process groups, sequence numbers and sizes."""

from __future__ import annotations

import math
from typing import Annotated, Any, NamedTuple

import msgspec
import polars as pl
import pyarrow.parquet as pq

from pasta.collect.importers.torch_execution.nodes import Node, Operation, Tensor, arguments
from pasta.collect.losses import Losses
from pasta.collect.shaping.collectives import operation_of_arguments
from pasta.trace_writer import PartWriter

_RECORD = "record_param_comms"
_GROUPS = "## process_group:init ##"
_NAME_AT = 4
_SEQUENCE_MAX = 1 << 62
_DTYPES = {
    "c10::BFloat16": "BFloat16",
    "c10::Half": "Half",
    "bool": "Bool",
    "double": "Double",
    "float": "Float",
    "int": "Int",
    "long int": "Long",
    "short int": "Short",
    "signed char": "Char",
    "unsigned char": "Byte",
}
_FILLED = (
    "collectives whose sequence number, and sizes, are those of another step, since the two files were"
    " recorded over different steps: ranks match if their execution traces are of one step"
)
_UNNAMED = (
    "collectives of several process groups that the execution trace does not name: their groups and"
    " sequence numbers left out"
)
_SCHEMA: dict[str, Any] = {
    "node": pl.UInt64,
    "told_communicator": pl.String,
    "told_sequence": pl.Int64,
    "told_operation": pl.String,
    "told_dtype": pl.String,
    "told_in": pl.Int64,
    "told_out": pl.Int64,
    "told_members": pl.List(pl.Int64),
}


_Rank = Annotated[int, msgspec.Meta(ge=0, lt=1 << 31)]


class _Record(NamedTuple):
    """What one node records of a collective; `group` is a name, or a number that means nothing elsewhere."""

    node: int
    group: str | int
    sequence: int | None
    operation: str
    dtype: str
    bytes_in: int | None
    bytes_out: int | None


class _Group(msgspec.Struct):
    """A process group as the execution trace lists it."""

    pg_name: str
    ranks: list[_Rank] = []


_decode_groups = msgspec.json.Decoder(list[_Group]).decode


class Communication:
    """Fills what `collective` lacks from the nodes that record collectives.

    Args:
        losses: where what cannot be told is counted.
    """

    def __init__(self, losses: Losses) -> None:
        self._losses = losses
        self._records: list[_Record] = []
        self._members: dict[str, list[int]] = {}

    def add(self, node: Node, taken: Operation) -> None:
        """Take a node, if it records a collective or lists the process groups."""
        if taken.name == _RECORD:
            record = _recorded(node, taken)
            if record is not None:
                self._records.append(record)
        elif taken.name == _GROUPS:
            self._members |= _listed(node)

    def complete(self, part: PartWriter, twins: pl.DataFrame, *, other_step: bool) -> None:
        """Give collectives the group, sequence, operation and sizes that they lack.

        Args:
            part: the tables of the process.
            twins: `node`, and of its span `tid`, `ts` and `end`.
            other_step: whether the nodes are of another step than the spans.
        """
        if not self._records or not part.rows.get("collective"):
            return
        told = self._launched(part, twins)
        counts = {"sequence": 0}

        def fill(frame: pl.DataFrame) -> pl.DataFrame:
            filled = _filled(frame.join(told, on="correlation", how="left", maintain_order="left"))
            changed = filled["sequence_source"].ne_missing(frame["sequence_source"])
            counts["sequence"] += int(changed.sum())
            return filled

        part.revise("collective", fill)
        self._losses.skip(_FILLED, counts["sequence"] if other_step else 0)

    def _launched(self, part: PartWriter, twins: pl.DataFrame) -> pl.DataFrame:
        """Return what is told of each call that launched a collective, by its correlation."""
        spans = twins.join(self._rows(), on="node").drop("node").sort("ts")
        files = sorted((part.folder / "call").glob("*.parquet"))
        calls = [pl.DataFrame(pq.read_table(file, columns=["tid", "ts", "correlation"])) for file in files]  # fmt: skip
        empty = pl.DataFrame(schema={"tid": pl.Int64, "ts": pl.Int64, "correlation": pl.UInt64})
        every = pl.concat([empty, *calls]).filter(pl.col("correlation") > 0).sort("ts")
        found = every.join_asof(
            spans.with_columns(begin="ts"), on="ts", by="tid", check_sortedness=False
        )
        inside = found.filter(pl.col("begin").is_not_null(), pl.col("ts") < pl.col("end"))
        return inside.unique("correlation", keep="first", maintain_order=True).drop("tid", "ts", "begin", "end")  # fmt: skip

    def _rows(self) -> pl.DataFrame:
        """Return the records as columns; a group without a name is known only if it is the only one."""
        numbers = {record.group for record in self._records if isinstance(record.group, int)}
        alone = len({record.group for record in self._records}) == 1
        rows = []
        for record in self._records:
            named = isinstance(record.group, str)
            known = named or alone
            name = (str(record.group) if named else "0") if known else None
            sequence = record.sequence if known else None
            members = self._members.get(str(record.group)) if named else None
            rows.append((record.node, name, sequence, record.operation, record.dtype or None, record.bytes_in, record.bytes_out, members))  # fmt: skip
        if numbers and not alone:
            self._losses.skip(_UNNAMED, sum(isinstance(r.group, int) for r in self._records))
        return pl.DataFrame(rows, schema=_SCHEMA, orient="row").unique("node", keep="first", maintain_order=True)  # fmt: skip


def _recorded(node: Node, taken: Operation) -> _Record | None:
    """Return what a node tells; `None`: it communicates nothing, or is written in another way."""
    values, types = arguments(node)
    at = next((place for place in (_NAME_AT, _NAME_AT - 1) if _is_text(values, place)), None)
    if at is None or not operation_of_arguments(values[at]):
        return None
    sequence, group = _first(values[at - 3]), _first(values[at - 2])
    if not isinstance(group, str | int) or isinstance(group, bool):
        return None
    known = type(sequence) is int and 0 <= sequence < _SEQUENCE_MAX
    kind = str(types[0]) if at == _NAME_AT else ""
    name = kind[kind.find("(") + 1 : kind.find(")")] if "Tensor(" in kind else ""
    if "Tensor(" in name:
        name = name[name.find("(") + 1 :]
    given = [tensor for tensor in taken.inputs if at == _NAME_AT and tensor.position == 0]
    returned = [tensor for tensor in taken.outputs if tensor.position == 0]
    return _Record(
        taken.id,
        group,
        sequence if known else None,
        operation_of_arguments(values[at]),
        _DTYPES.get(name, name),
        _bytes(given),
        _bytes(returned),
    )


def _is_text(values: list[Any], place: int) -> bool:
    return len(values) > place and isinstance(values[place], str)


def _first(value: Any) -> Any:
    """Return the number or name itself, of newer files the first of a pair."""
    return value[0] if isinstance(value, list) and value else value


def _bytes(tensors: list[Tensor]) -> int | None:
    """Return the bytes of tensors; `None` where there is none."""
    sizes = [math.prod(tensor.view.shape) * tensor.view.itemsize for tensor in tensors]
    return sum(sizes) if sizes else None


def _listed(node: Node) -> dict[str, list[int]]:
    """Return the members of the process groups that a node lists; none where it cannot be read."""
    values, _ = arguments(node)
    found: dict[str, list[int]] = {}
    for value in values:
        try:
            groups = _decode_groups(value) if isinstance(value, str) else []
        except msgspec.DecodeError:
            continue
        found |= {group.pg_name: group.ranks for group in groups if group.ranks}
    return found


def _filled(joined: pl.DataFrame) -> pl.DataFrame:
    """Return collectives with what is told in place of what they lack, and without the told columns."""
    counted = pl.col("sequence_source").fill_null("counted") != "recorded"
    told = pl.col("told_sequence").is_not_null() & counted
    vague = pl.col("operation").fill_null("").is_in(["", "sendrecv"])

    def lacking(column: str, new: str) -> pl.Expr:
        old = pl.col(column)
        if joined.schema[column] == pl.String:
            old = pl.when(old != "").then(old)
        return pl.coalesce(old, new, pl.lit("") if joined.schema[column] == pl.String else None)

    return joined.with_columns(
        pl.when(told).then("told_sequence").otherwise("sequence").alias("sequence"),
        pl.when(told).then(pl.lit("recorded")).otherwise("sequence_source").alias("sequence_source"),
        pl.when(vague).then(pl.coalesce("told_operation", "operation")).otherwise("operation").alias("operation"),
        pl.when(told).then(pl.lit("arguments")).otherwise("source").alias("source"),
        lacking("communicator", "told_communicator").alias("communicator"),
        lacking("dtype", "told_dtype").alias("dtype"),
        lacking("bytes_in", "told_in").alias("bytes_in"),
        lacking("bytes_out", "told_out").alias("bytes_out"),
        lacking("members", "told_members").alias("members"),
    ).drop(name for name in _SCHEMA if name != "node")  # fmt: skip
