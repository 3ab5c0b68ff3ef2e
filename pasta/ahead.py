"""Making the next items of an iterator on another thread while the last one is used."""

from __future__ import annotations

import queue
import threading
from collections.abc import Iterator
from typing import Any, TypeVar

T = TypeVar("T")

_HELD = 1
_END = object()


def ahead(items: Iterator[T]) -> Iterator[T]:
    """Yield `items`, of which the next is made ahead on a thread of their own.

    An error of the iterator is raised where its item is due. The thread ends with the iteration,
    also where that is given up.
    """
    made: queue.Queue[tuple[Any, BaseException | None]] = queue.Queue(_HELD)
    given_up = threading.Event()

    def put(item: Any, error: BaseException | None = None) -> None:
        while not given_up.is_set():
            try:
                made.put((item, error), timeout=0.1)
            except queue.Full:
                continue
            return

    def make() -> None:
        try:
            for item in items:
                put(item)
                if given_up.is_set():
                    return
            put(_END)
        except BaseException as error:  # noqa: BLE001 - raised by whoever waits for the item
            put(_END, error)

    thread = threading.Thread(target=make, name="pasta reads ahead", daemon=True)
    thread.start()
    try:
        while True:
            item, error = made.get()
            if error is not None:
                raise error
            if item is _END:
                return
            yield item
    finally:
        given_up.set()
        thread.join()
