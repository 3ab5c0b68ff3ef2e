from __future__ import annotations

import signal
import threading
import time

import pytest

from pasta.collect.target.main_thread import call_soon


@pytest.fixture(autouse=True)
def interruptible():
    """Let SIGINT interrupt, also where the tests run in the background and ignore it."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


def from_a_thread(function):
    thread = threading.Thread(target=call_soon, args=(function,))
    thread.start()
    return thread


def work_until(done):
    until = time.monotonic() + 10
    while not done() and time.monotonic() < until:
        pass


def test_a_function_runs_on_the_main_thread():
    ran = []
    from_a_thread(lambda: ran.append(threading.current_thread()))
    work_until(lambda: ran)
    assert ran == [threading.main_thread()]


def test_all_that_wait_run_in_order():
    ran = []

    def ask_three_times():
        for number in range(3):
            call_soon(lambda number=number: ran.append(number))

    threading.Thread(target=ask_three_times).start()
    work_until(lambda: len(ran) == 3)
    assert ran == [0, 1, 2]


def test_on_the_main_thread_it_runs_at_once():
    ran = []
    call_soon(lambda: ran.append(1))
    assert ran == [1]


def test_what_a_signal_handler_raises_meanwhile_reaches_the_program():
    def interrupted():
        signal.raise_signal(signal.SIGINT)

    def work():
        from_a_thread(interrupted)
        work_until(lambda: False)

    with pytest.raises(KeyboardInterrupt):
        work()


def test_calls_go_on_after_one_was_interrupted():
    ran = []
    with pytest.raises(KeyboardInterrupt):  # noqa: PT012 - whichever line it interrupts
        from_a_thread(lambda: signal.raise_signal(signal.SIGINT))
        work_until(lambda: False)
    from_a_thread(lambda: ran.append(1))
    work_until(lambda: ran)
    assert ran == [1]
