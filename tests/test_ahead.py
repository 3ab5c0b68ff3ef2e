"""Items made ahead come in order, with their errors where they are due."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest

from pasta.ahead import ahead


def test_all_items_in_order_on_another_thread() -> None:
    makers: set[str] = set()

    def items() -> Iterator[int]:
        for item in range(100):
            makers.add(threading.current_thread().name)
            yield item

    assert list(ahead(items())) == list(range(100))
    assert makers == {"pasta reads ahead"}


def test_an_error_comes_after_the_items_before_it() -> None:
    def items() -> Iterator[int]:
        yield 1
        yield 2
        raise ValueError("three")

    made = ahead(items())
    assert [next(made), next(made)] == [1, 2]
    with pytest.raises(ValueError, match="three"):
        next(made)


def test_few_are_made_before_they_are_asked_for_and_none_when_given_up() -> None:
    made: list[int] = []

    def items() -> Iterator[int]:
        for item in range(1000):
            made.append(item)
            yield item

    before = threading.active_count()
    stream = ahead(items())
    assert next(stream) == 0
    stream.close()  # type: ignore[attr-defined]
    assert len(made) <= 4
    assert threading.active_count() == before
