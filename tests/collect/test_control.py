from __future__ import annotations

import json
import os
import subprocess

import pytest

from pasta.collect import control
from pasta.collect.channel import SHARED_MEMORY, Channel
from pasta.collect.target.channel_writer import RingWriter
from pasta.collect.target.selection import CONTROL
from pasta.collect.wire import WIRE_TABLES
from pasta.errors import CollectError


@pytest.fixture
def channel():
    with Channel.create("control", slots=2, slot_bytes=1 << 14, tables=WIRE_TABLES) as made:
        yield made


@pytest.fixture
def program(channel):
    """A process under a recording that has written nothing so far."""
    environment = {**os.environ, "PASTA_CHANNEL": str(channel.folder)}
    with subprocess.Popen(["sleep", "60"], env=environment) as process:
        yield process
        process.kill()


def asked(channel: Channel) -> dict:
    return json.loads((channel.folder / CONTROL).read_text())


def test_a_recording_is_found_by_its_own_process(channel):
    assert control.find_channel(os.getpid()) == channel.folder


def test_a_recording_is_found_by_a_program_that_writes(channel):
    ring = RingWriter(str(channel.folder))
    renamed = channel.folder / "ring-123456789-1-1"
    next(channel.folder.glob("ring-*")).rename(renamed)
    assert control.find_channel(123456789) == channel.folder
    ring.close()


def test_a_recording_is_found_by_a_program_that_has_not_written_yet(channel, program):
    assert control.find_channel(program.pid) == channel.folder


@pytest.mark.usefixtures("channel")
def test_a_process_that_is_not_recorded_is_one_line():
    with pytest.raises(CollectError, match="process 1: no recording") as caught:
        control.ask(1, record=True)
    assert "pasta collect --idle" in str(caught.value)
    assert "\n" not in str(caught.value)
    with pytest.raises(CollectError, match="process 999999999: no recording"):
        control.status(999999999)


def test_what_is_asked_is_in_the_control_file(channel):
    assert control.ask(os.getpid(), record=True, steps=3) == channel.folder
    assert asked(channel) == {"record": True, "steps": 3}
    control.ask(os.getpid(), record=False)
    assert asked(channel) == {"record": False, "steps": None}
    assert not [file.name for file in channel.folder.glob(f".{CONTROL}*")]


def test_the_status_is_what_the_reader_said_last(channel):
    with pytest.raises(CollectError, match="has not begun to record yet; try again"):
        control.status(os.getpid())
    for rows in (1, 2):
        control.write_status(channel.folder, {"rows": {"span": rows}})
        assert control.status(os.getpid()) == {"rows": {"span": rows}}


def test_a_channel_that_is_being_removed_is_no_recording(channel):
    away = SHARED_MEMORY / f"{channel.folder.name}.removed"
    channel.folder.rename(away)
    try:
        with pytest.raises(CollectError, match="no recording"):
            control.find_channel(os.getpid())
    finally:
        away.rename(channel.folder)
