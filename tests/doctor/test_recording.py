"""What each collector needs, put together."""

from __future__ import annotations

from dataclasses import replace

import pytest

from pasta.collect.native_library import ACTIVITY, MEMORY, PATCHES
from pasta.doctor import recording
from pasta.doctor.check import Status
from pasta.errors import CollectError
from tests.doctor.facts_help import BARE, WHOLE


@pytest.fixture
def states(monkeypatch):
    """How the native parts stand, to be changed by tests."""
    stand = {ACTIVITY: ("built", "a"), MEMORY: ("compiled", "b"), PATCHES: ("possible", "c")}

    def state(part):
        if isinstance(stand[part], CollectError):
            raise stand[part]
        return stand[part]

    monkeypatch.setattr(recording, "state", state)
    return stand


def found(facts):
    return {check.name: check for check in recording.checks(facts)}


@pytest.mark.usefixtures("states")
def test_everything_is_there():
    checks = found(WHOLE)
    assert checks["cuda"].status is checks["cuda.memory"].status is Status.OK
    assert checks["cuda"].found == "the CUDA collector is built with pasta"
    assert checks["cuda.memory"].found == (
        "the memory collector is compiled,"
        " the memory collector's device code will be compiled at first use"
    )
    assert (checks["nvml"].status, checks["nvml"].found) == (Status.OK, "1 GPUs")


@pytest.mark.usefixtures("states")
def test_what_is_missing_is_named():
    checks = found(replace(WHOLE, cupti_path=None, sanitizer_path=None))
    assert checks["cuda"].found == "no CUPTI, see above"
    assert checks["cuda.memory"].found == "no Compute Sanitizer, see above"
    held = found(replace(WHOLE, cupti={**WHOLE.cupti, "refused": "MULTIPLE"}))
    assert held["cuda"].found == "CUPTI refuses: MULTIPLE, see above"
    assert held["cuda.memory"].status is Status.OK
    assert found(replace(WHOLE, nvml=BARE.nvml, module=""))["cuda"].found.startswith(
        "no NVIDIA GPU"
    )
    assert found(replace(WHOLE, nvml={**WHOLE.nvml, "cards": []}))["cuda"].status is Status.MISSING


def test_a_driver_that_hangs_is_not_asked_again(states):
    states[PATCHES] = states[ACTIVITY] = AssertionError("asked")
    checks = found(replace(WHOLE, nvml={"error": "no answer in 60 s"}))
    assert checks["cuda.memory"].found == "the driver does not answer, see above"


def test_parts_that_cannot_be_had(states):
    states[ACTIVITY] = CollectError(
        "--with cuda: cupti.h was not found, to compile it; install the CUDA toolkit or another"
    )
    states[PATCHES] = ("failed", "it does not compile: x.h: error: bad (remove /y)")
    checks = found(WHOLE)
    assert checks["cuda"].found == "cupti.h was not found, to compile it"
    assert checks["cuda"].advice == "install the CUDA toolkit or another"
    assert checks["cuda.memory"].found == "it does not compile: x.h: error: bad (remove /y)"
    assert checks["cuda"].status is checks["cuda.memory"].status is Status.MISSING


@pytest.mark.usefixtures("states")
def test_vendors_tools_on_the_path(monkeypatch, tmp_path):
    nsys = tmp_path / "nsys"
    nsys.write_text("#!/bin/sh\necho NVIDIA Nsight Systems version 2025.5.1.121\n")
    nsys.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    checks = found(BARE)
    assert (checks["nsys"].status, checks["nsys"].found) == (Status.OK, f"{nsys} 2025.5.1.121")
    assert checks["rocprofv3"].status is Status.MISSING
    assert "Nsight Compute" in checks["cuda.counters"].advice


@pytest.mark.usefixtures("states")
def test_without_a_compiler_the_hook_of_pytorch_is_missing(monkeypatch):
    assert found(BARE)["torch"].status is Status.OK
    monkeypatch.setenv("CXX", "no-such-compiler")
    check = found(BARE)["torch"]
    assert check.status is Status.LIMITED
    assert "g++" in check.advice


@pytest.mark.usefixtures("states")
def test_what_bpftrace_gives_is_named_with_why_it_does_not_work(monkeypatch):
    monkeypatch.setattr(recording, "check_bpftrace", lambda _name: None)
    assert found(BARE)["offcpu"].found == "by bpftrace; levels user, kernel"

    def refuses(name):
        raise CollectError(f"--with {name}: bpftrace works for root only; run pasta as root")

    monkeypatch.setattr(recording, "check_bpftrace", refuses)
    check = found(BARE)["processes"]
    assert check.status is Status.MISSING
    assert (check.found, check.advice) == ("bpftrace works for root only", "run pasta as root")
