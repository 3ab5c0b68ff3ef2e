"""An empty timeline is never taken for a result."""

import pyarrow as pa
import pytest

from pasta.collect.device_silence import NO_KERNEL, DeviceSilence
from pasta.collect.recording import Reception
from pasta.collect.selection import Selection
from pasta.schema import arrow_schema


def losses(*reasons):
    return pa.table({"reason": list(reasons)})


def test_kernels_break_the_silence():
    silence = DeviceSilence()
    assert silence.unexplained
    silence("kernel", pa.table({"ts": pa.array([], pa.int64())}))
    silence("span", pa.table({"ts": [1]}))
    assert silence.unexplained
    silence("kernel", pa.table({"ts": [1]}))
    assert (silence.unexplained, silence.reasons) == (False, "")


def test_kernels_that_were_not_wanted_break_it_too():
    silence = DeviceSilence()
    silence("loss", losses("rows of kernel whose name does not match --match: left out"))
    assert not silence.unexplained


def test_reasons_that_end_a_timeline_are_kept_once():
    silence = DeviceSilence()
    silence("loss", losses("NVTX marks: left out", None, "records of CUDA ended early"))
    silence("loss", losses("nothing of CUDA is recorded: no CUPTI", "records of CUDA ended early"))
    assert silence.reasons == "records of CUDA ended early; nothing of CUDA is recorded: no CUPTI"
    assert not silence.unexplained


@pytest.mark.parametrize(
    ("chosen", "said"),
    [
        ({"cuda": "kernels"}, NO_KERNEL),
        ({"cuda.memory": "touch"}, NO_KERNEL),
        ({"torch": "operators"}, ""),
    ],
)
def test_a_recording_without_kernels_says_so(tmp_path, chosen, said):
    with Reception(tmp_path / "t", "a.out", chosen, Selection()) as reception:
        row = {"rank": 0, "pid": 7, "command": "a.out", "stack_id": 0}
        table = pa.Table.from_pylist([row], schema=arrow_schema("process"))
        reception.receiver.append(0, "process", table)
        reception.receiver.processes[0, 7] = 1
        reception.finish("exit 0")
    assert reception.warning == said


def test_a_recording_says_why_nothing_was_recorded(tmp_path):
    with Reception(tmp_path / "t", "a.out", {"cuda": "kernels"}, Selection()) as reception:
        row = {"rank": 0, "pid": 7, "collector": "cuda", "count": 1}
        row["reason"] = "nothing of CUDA is recorded: another client holds CUPTI: cuda-gdb"
        table = pa.Table.from_pylist([row], schema=arrow_schema("loss"))
        reception.receiver.append(0, "loss", table)
        reception.receiver.processes[0, 7] = 1
        reception.finish("exit 0")
    assert reception.warning == row["reason"]
