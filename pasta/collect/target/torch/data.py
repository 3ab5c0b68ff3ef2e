"""Data loading: what the program waits for, what its workers do, how many batches lie ready.

Spans of level `function`: `DataLoader.wait` for each batch that the program asks for,
`DataLoader.fetch` and inside it `DataLoader.collate` where the batch is made, in a worker or in the
program's own process, and `DataLoader.pin` where it is copied into pinned memory. The metric
`DataLoader.queue` tells how many batches lie ready when the program asks for one.
"""

from __future__ import annotations

import contextlib
import functools
import threading
from collections.abc import Callable, Iterator
from operator import attrgetter
from typing import Any

from ..session import Session

LEVEL = "function"
WAIT, FETCH, COLLATE, PIN = (f"DataLoader.{name}" for name in ("wait", "fetch", "collate", "pin"))
QUEUE, UNIT = "DataLoader.queue", "batches"
_UNKNOWN = "parts of PyTorch's data loader that this version does not have: not recorded"

Function = Callable[..., Any]


class Loading:
    """Turns what data loaders do into spans and metrics.

    Args:
        session: takes them.
        in_worker: called in a data loader's worker, before each batch.
    """

    def __init__(self, session: Session, in_worker: Callable[[], None]) -> None:
        self._session = session
        self._in_worker = in_worker
        self._pinning = threading.local()

    def waits(self, next_data: Function, loader: Any) -> Any:
        """Let the iterator `loader` get its next batch, with the depth of its queue before that."""
        if self._session.recording:
            self._guarded(self._count_ready, loader)
        return self._inside(WAIT, next_data, loader)

    def fetches(self, fetch: Function, fetcher: Any, *args: Any, **kwargs: Any) -> Any:
        """Let `fetcher` make a batch."""
        self._guarded(self._look_for_worker)
        if not self._session.recording:
            return fetch(fetcher, *args, **kwargs)
        collate = getattr(fetcher, "collate_fn", None)
        if collate is None or isinstance(collate, _Collate):
            return self._inside(FETCH, fetch, fetcher, *args, **kwargs)
        fetcher.collate_fn = _Collate(self._inside, collate)
        try:
            return self._inside(FETCH, fetch, fetcher, *args, **kwargs)
        finally:
            fetcher.collate_fn = collate

    def pins(self, pin: Function, *args: Any, **kwargs: Any) -> Any:
        """Let a batch be pinned; its parts, for which the same function is called, have no span."""
        if getattr(self._pinning, "inside", False):
            return pin(*args, **kwargs)
        self._pinning.inside = True
        try:
            return self._inside(PIN, pin, *args, **kwargs)
        finally:
            self._pinning.inside = False

    def _inside(self, name: str, function: Function, *args: Any, **kwargs: Any) -> Any:
        opened = self._session.recording
        if opened:
            self._guarded(self._session.spans.open, LEVEL, name, name)
        try:
            return function(*args, **kwargs)
        finally:
            if opened:
                self._guarded(self._session.spans.close, LEVEL, name)

    def _guarded(self, action: Function, *args: Any) -> None:
        self._session.guarded("data loader", action, *args)

    def _look_for_worker(self) -> None:
        from torch.utils.data import get_worker_info

        if get_worker_info() is not None:
            self._in_worker()

    def _count_ready(self, loader: Any) -> None:
        """Count the batches that have come: in order, in the queue, and those that wait their turn."""
        queue = getattr(loader, "_data_queue", None)
        if queue is None:
            return
        with contextlib.suppress(NotImplementedError):  # as on systems that cannot tell
            early = sum(len(task) > 1 for task in (*loader._task_info.values(),))  # noqa: SLF001
            self._session.metric(QUEUE, queue.qsize() + early, UNIT)


class _Collate:
    """A function that makes a batch of samples, with a span around each call."""

    def __init__(self, inside: Function, collate: Function) -> None:
        self._inside = inside
        self._collate = collate

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self._inside(COLLATE, self._collate, *args, **kwargs)


@contextlib.contextmanager
def installed(session: Session, in_worker: Callable[[], None]) -> Iterator[None]:
    """Record what data loaders do inside the block, in this process and in forks of it.

    Args:
        session: takes the rows.
        in_worker: called in a data loader's worker, before each batch.
    """
    import torch.utils.data

    loading = Loading(session, in_worker)
    with contextlib.ExitStack() as stack:
        for place, name, hook in (
            ("dataloader._SingleProcessDataLoaderIter", "_next_data", loading.waits),
            ("dataloader._MultiProcessingDataLoaderIter", "_next_data", loading.waits),
            ("_utils.fetch._MapDatasetFetcher", "fetch", loading.fetches),
            ("_utils.fetch._IterableDatasetFetcher", "fetch", loading.fetches),
            ("_utils.pin_memory", "pin_memory", loading.pins),
        ):
            try:
                owner = attrgetter(place)(torch.utils.data)
                original = vars(owner)[name]
            except (AttributeError, KeyError):
                session.losses.count(_UNKNOWN, session.clock())
            else:
                stack.enter_context(_replaced(owner, name, original, _told(original, hook)))
        yield


def _told(original: Function, hook: Function) -> Function:
    @functools.wraps(original)
    def told(*args: Any, **kwargs: Any) -> Any:
        return hook(original, *args, **kwargs)

    return told


@contextlib.contextmanager
def _replaced(owner: Any, name: str, original: Function, told: Function) -> Iterator[None]:
    """Put `told` into the place of `original`, unless another has come there at the end."""
    setattr(owner, name, told)
    try:
        yield
    finally:
        if vars(owner).get(name) is told:
            setattr(owner, name, original)
