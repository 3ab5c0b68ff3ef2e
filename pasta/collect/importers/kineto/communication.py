"""Rows of `collective`: communication kernels, and what CPU-only traces record of collectives."""

from __future__ import annotations

from collections.abc import Sequence
from operator import attrgetter
from typing import Any

import pyarrow as pa

from pasta.collect.importers.kineto.events import CommunicationArguments, Event, decode_arguments
from pasta.collect.losses import Losses
from pasta.collect.shaping import collectives
from pasta.collect.shaping.columns import Columns, Interned

_RECORD = "record_param_comms"


class Communication:
    """Tells which events communicate, and makes the columns of their rows.

    Args:
        columns: makes the columns.
        losses: where what cannot be kept is counted.
    """

    def __init__(self, columns: Columns, losses: Losses) -> None:
        self._columns = columns
        self._members = Interned(
            collectives.parse_members, pa.list_(pa.int64()), "Process Group Ranks", losses
        )

    def of_kernels(
        self, events: list[Event], collectives_told: list[Any]
    ) -> tuple[list[int], dict[str, pa.Array[Any]]]:
        """Return which of the kernels communicate, and the columns of those.

        Args:
            events: the kernels.
            collectives_told: the argument that names a collective; `None` where there is none.
        """
        rows = [
            row
            for row, (event, collective) in enumerate(zip(events, collectives_told, strict=True))
            if collective is not None or collectives.is_communication(event.name)
        ]
        if not rows:
            return rows, {}
        arguments = decode_arguments([events[row] for row in rows], CommunicationArguments)
        operations = [
            collectives.operation_of_arguments(argument.collective)
            or collectives.operation_of_kernel(events[row].name)
            for row, argument in zip(rows, arguments, strict=True)
        ]
        return rows, self._described(arguments, operations)

    def of_operators(self, events: list[Event]) -> tuple[list[int], dict[str, pa.Array[Any]]]:
        """Return which operators are records of a collective, and the columns of those."""
        rows = [row for row, event in enumerate(events) if event.name == _RECORD]
        if not rows:
            return rows, {}
        arguments = decode_arguments([events[row] for row in rows], CommunicationArguments)
        operations = [collectives.operation_of_arguments(each.collective) for each in arguments]
        kept = [place for place, operation in enumerate(operations) if operation]
        return [rows[place] for place in kept], self._described(
            [arguments[place] for place in kept], [operations[place] for place in kept]
        )

    def _described(
        self, arguments: Sequence[CommunicationArguments], operations: list[str]
    ) -> dict[str, pa.Array[Any]]:
        def get(name: str) -> list[Any]:
            return list(map(attrgetter(name), arguments))

        dtypes = get("dtype")
        members = [str(text or "").encode() for text in get("members")]
        sources = ["name" if name is None else "arguments" for name in get("collective")]
        return {
            "communicator": pa.array(list(map(_communicator, arguments)), pa.string()),
            "sequence": self._columns.numbers(get("sequence"), pa.int64(), "Seq"),
            "operation": pa.array(operations, pa.string()),
            "dtype": self._columns.texts([dtype or "" for dtype in dtypes]),
            "bytes_in": _sizes(get("elements_in"), dtypes),
            "bytes_out": _sizes(get("elements_out"), dtypes),
            "members": self._members.column(members),
            "peer": self._columns.numbers(
                list(map(_peer, arguments, operations)), pa.int32(), "peer"
            ),
            "source": pa.array(sources, pa.string()),
        }


def _communicator(arguments: CommunicationArguments) -> str:
    known = arguments.group if arguments.group is not None else arguments.group_id
    return "" if known is None else str(known)


def _peer(arguments: CommunicationArguments, operation: str) -> Any:
    if operation == "send":
        return arguments.sent_to
    return arguments.received_from if operation == "recv" else None


def _sizes(elements: list[Any], dtypes: list[Any]) -> pa.Array[Any]:
    return pa.array(list(map(collectives.message_bytes, elements, dtypes)), pa.int64())
