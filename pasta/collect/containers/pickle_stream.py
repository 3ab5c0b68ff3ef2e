"""Reading pickles of any size that others wrote, whole or damaged, so that nothing in them runs.

Python's own reader calls what a pickle names. This one knows plain data only: None, bools, ints,
floats, texts, bytes, lists, tuples and dicts, of all protocols. A pickle with anything else in it is
refused. The elements of chosen lists are handed out as they are complete and not kept.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from pasta.collect.containers.pickle_machine import Elements, Machine, Refused
from pasta.collect.containers.pickle_memo import Memo, count_fetches
from pasta.collect.containers.pickle_window import ARGUMENT_BYTES_MAX, Ended, TooLong, Window
from pasta.collect.losses import Losses
from pasta.errors import InputError

BATCH = 1 << 12


class PickleStream:
    """The value of one pickle.

    Args:
        file: the pickle, not compressed.
        losses: where damage is counted.
        lists: key of the outermost dict -> 1: the elements of its list are handed out; 2: those of
            the lists in its list are. These elements are dicts, or hold no lists.
        batch: hand out about so many at once.

    Attributes:
        value: what was not handed out, once all is read; `None` where the pickle is cut short.
        handed_out: the number of elements handed out.
    """

    def __init__(
        self, file: Path, losses: Losses, lists: Mapping[str, int], *, batch: int = BATCH
    ) -> None:
        self.value: Any = None
        self.handed_out = 0
        self._file = file
        self._losses = losses
        self._lists = lists
        self._batch = batch

    def __iter__(self) -> Iterator[Elements]:
        """Yield the elements of the chosen lists.

        A value that is changed after it was handed out stays as it was.

        Raises:
            InputError: the file is no pickle, holds anything but plain data, or more at once than
                is believed.
        """
        memo = Memo(count_fetches(self._file))
        with self._file.open("rb") as stream:
            machine = Machine(Window(stream), memo, self._lists, self._batch)
            while not machine.ended:
                self._run(machine)
                for elements in machine.ready:
                    self.handed_out += len(elements.items)
                    yield elements
                machine.ready.clear()
        self.value = machine.value

    def _run(self, machine: Machine) -> None:
        name = self._losses.source
        try:
            machine.run()
        except Refused as refusal:
            raise InputError(f"{name}: {refusal}") from refusal
        except TooLong as error:
            raise InputError(
                f"{name}: a value at byte {machine.window.position} says to be longer than"
                f" {ARGUMENT_BYTES_MAX >> 20} MiB; this is no pickle, or a damaged one"
            ) from error
        except Ended:
            machine.flush()
            machine.ended = True
            kept = self.handed_out + sum(len(elements.items) for elements in machine.ready)
            self._losses.fault(
                f"pickle cut at byte {machine.window.size}, {kept} elements kept",
                where=f"byte {machine.window.size}",
            )
