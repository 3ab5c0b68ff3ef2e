"""Events as users name them, and as perf is told of them."""

from __future__ import annotations

import pytest

from pasta.collect.companions.cpu.events import parse_events, perf_arguments
from pasta.errors import CollectError


def told(*texts, kernel=True, frequency=99):
    arguments, kinds = perf_arguments(parse_events(texts), frequency, kernel=kernel)
    assert arguments[::2] == ["-e"] * (len(arguments) // 2)
    return arguments[1::2], kinds


def test_the_clock_is_always_there():
    assert told() == (["task-clock/freq=99,name=on_cpu/"], {"on_cpu": "on_cpu"})
    assert told(kernel=False)[0] == ["task-clock/freq=99,name=on_cpu/u"]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("page-faults", "page-faults/freq=99,name=event1/"),
        ("page-faults@1:faults", "page-faults/period=1,name=event1/"),
        ("page-faults:u@7", "page-faults/period=7,name=event1/u"),
        ("sched:sched_switch", "sched:sched_switch"),
        ("sched:sched_switch@1:switches", "sched:sched_switch"),
        ("cycles:u@1000003", "{cycles/period=1000003,name=event1/u}"),
        ("cpu/event=0x3c,umask=0/@5", "{cpu/event=0x3c,umask=0,period=5,name=event1/}"),
        ("cpu/event=0x3c/u", "{cpu/event=0x3c,freq=99,name=event1/u}"),
    ],
)
def test_an_event_is_told_to_perf(text, expected):
    arguments, kinds = told(text)
    assert arguments[1:] == [expected]
    assert list(kinds.values())[1] == text.partition("@")[0]


def test_counters_of_the_cpu_are_one_group():
    arguments, kinds = told("cycles", "minor-faults@1", "instructions", kernel=False)
    assert arguments[1:] == [
        "minor-faults/period=1,name=event2/u",
        "{cycles/freq=99,name=event1/u,instructions/freq=99,name=event3/u}",
    ]
    assert kinds["event3"] == "instructions"


@pytest.mark.parametrize(
    ("text", "expected"), [("page-faults@1:faults", "faults"), ("cycles", "events")]
)
def test_weights_have_a_unit(text, expected):
    assert parse_events([text])[0].unit == expected


@pytest.mark.parametrize(
    "text", ["", "@5", "a b", "cycles@", "cycles@0", "cycles@-1", "cycles@x", "{cycles}", "a@1:b:c"]
)
def test_what_is_no_event_is_refused(text):
    with pytest.raises(CollectError, match="expected NAME"):
        parse_events([text])


def test_a_tracepoint_has_no_period():
    with pytest.raises(CollectError, match="every hit of a tracepoint"):
        parse_events(["sched:sched_switch@10"])


def test_an_event_is_named_once():
    with pytest.raises(CollectError, match="given twice"):
        parse_events(["cycles", "cycles@7"])
