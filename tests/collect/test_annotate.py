from __future__ import annotations

from functools import partial

import pytest

import pasta
from pasta.collect.target import annotate as module
from pasta.collect.target.annotate import add_sink, annotate, remove_sink


class Ranges:
    """A sink that keeps what it is told."""

    def __init__(self) -> None:
        self.told: list[str] = []

    def begin(self, name: str) -> None:
        self.told.append(f"+{name}")

    def end(self, name: str) -> None:
        self.told.append(f"-{name}")


@pytest.fixture
def ranges():
    sink = Ranges()
    add_sink(sink)
    yield sink
    remove_sink(sink)


def test_ranges_nest(ranges):
    with annotate("outer"), annotate("inner"):
        ranges.told.append("body")
    assert ranges.told == ["+outer", "+inner", "body", "-inner", "-outer"]


def test_one_annotation_may_be_entered_within_itself(ranges):
    again = annotate("again")
    with again, again:
        pass
    assert ranges.told == ["+again", "+again", "-again", "-again"]


def test_decorates_each_call_of_a_recursive_function(ranges):
    @annotate("factorial")
    def factorial(number: int) -> int:
        """Multiply."""
        return number * factorial(number - 1) if number else 1

    assert factorial(2) == 2
    assert ranges.told == ["+factorial"] * 3 + ["-factorial"] * 3
    assert (factorial.__name__, factorial.__doc__) == ("factorial", "Multiply.")


def test_range_ends_when_its_body_raises(ranges):
    with pytest.raises(ZeroDivisionError), annotate("fails"):
        _ = 1 / 0
    assert ranges.told == ["+fails", "-fails"]


def test_generators_and_coroutines_are_refused():
    def generator():
        yield 1

    async def coroutine() -> None: ...

    async def asynchronous_generator():
        yield 1

    for function in (generator, coroutine, asynchronous_generator, partial(coroutine)):
        with pytest.raises(TypeError, match="use 'with annotate"):
            annotate("late")(function)


def test_every_sink_is_told_until_it_is_removed(ranges):
    second = Ranges()
    add_sink(second)
    with annotate("both"):
        remove_sink(second)
    assert second.told == ["+both"]
    assert ranges.told == ["+both", "-both"]
    remove_sink(second)


def test_nothing_is_called_where_nothing_records(monkeypatch):
    class NoSinks:
        def __bool__(self) -> bool:
            return False

        def __iter__(self):
            raise AssertionError("looked for sinks though there are none")

    monkeypatch.setattr(module, "_sinks", NoSinks())
    with annotate("off"):
        pass


def test_is_what_pasta_offers():
    assert pasta.annotate is annotate
