"""What the machine has, from facts that are given."""

from __future__ import annotations

import os
from dataclasses import replace
from types import SimpleNamespace

import pytest

from pasta.doctor import machine
from pasta.doctor.check import Status
from tests.doctor.facts_help import BARE, CARD, WHOLE


@pytest.fixture(autouse=True)
def _no_programs(monkeypatch):
    monkeypatch.setattr(machine.versions, "of_program", lambda _path: "13.0.88")
    monkeypatch.setattr(machine.versions, "beside_sanitizer", lambda _path: "13.5")


def found(facts):
    return {check.name: check for check in machine.checks(facts)}


def test_a_machine_with_everything():
    checks = found(WHOLE)
    of_cuda = ("NVIDIA driver", "GPU 0", "CUDA compiler", "CUPTI", "Compute Sanitizer")
    assert {checks[name].status for name in of_cuda} == {Status.OK}
    assert checks["NVIDIA driver"].found == "580.95, for CUDA 13.0"
    assert checks["GPU 0"].found == "H100, compute capability 9.0, 80 GiB"
    assert checks["CUDA compiler"].found == "/cuda/bin/nvcc 13.0.88"
    assert checks["CUPTI"].found == "/cuda/lib/libcupti.so.13 13.0"
    assert checks["Compute Sanitizer"].found.endswith("libsanitizer-public.so 13.5")


def test_a_machine_with_nothing():
    checks = found(BARE)
    assert "GPU 0" not in checks
    for name in ("NVIDIA driver", "CUDA compiler", "CUPTI", "Compute Sanitizer"):
        assert checks[name].status is Status.MISSING
        assert checks[name].advice
    assert "pip install nvidia-cuda-cupti" in checks["CUPTI"].advice


def test_a_driver_that_nvml_does_not_reach():
    check = found(replace(BARE, module="NVRM version: 580"))["NVIDIA driver"]
    assert check.status is Status.LIMITED
    assert check.found.startswith("NVRM version: 580, but NVML does not answer: libnvidia-ml")
    assert "NVIDIA_DRIVER_CAPABILITIES" in check.advice


def test_an_older_card():
    old = {**CARD, "compute_capability": "7.5"}
    facts = replace(WHOLE, nvml={**WHOLE.nvml, "cards": [CARD, old, {"name": "silent"}]})
    checks = found(facts)
    assert checks["GPU 0"].status is Status.OK
    assert checks["GPU 1"].status is Status.LIMITED
    assert (checks["GPU 2"].status, checks["GPU 2"].found) == (Status.OK, "silent")


def test_parts_of_cuda_that_are_newer_than_the_driver():
    checks = found(replace(WHOLE, nvml={**WHOLE.nvml, "cuda": "12.8"}))
    for name in ("CUDA compiler", "CUPTI"):
        assert checks[name].status is Status.LIMITED
        assert checks[name].found.endswith("but the driver is for CUDA 12.8")
        assert checks[name].advice == "update the driver, or install it for CUDA 12"


def test_cupti_that_tells_no_version_or_does_not_load():
    silent = found(replace(WHOLE, cupti={"cuda": "no driver"}))["CUPTI"]
    assert (silent.status, silent.found.split(" ", 1)[1]) == (
        Status.OK,
        "(tells no version without a driver)",
    )
    broken = found(replace(WHOLE, cupti={"error": "wrong ELF class"}))["CUPTI"]
    assert (broken.status, broken.found) == (Status.MISSING, "wrong ELF class")


def test_a_sanitizer_that_sees_less(monkeypatch):
    monkeypatch.setattr(machine.versions, "beside_sanitizer", lambda _path: "13.0")
    check = found(WHOLE)["Compute Sanitizer"]
    assert check.status is Status.LIMITED
    assert "TMA" in check.advice


def test_no_compiler(monkeypatch):
    monkeypatch.setenv("CXX", "no-such-compiler")
    assert found(WHOLE)["C++ compiler"].status is Status.MISSING


def test_shared_memory(monkeypatch, tmp_path):
    space = SimpleNamespace(f_frsize=4096, f_blocks=(64 << 20) // 4096, f_bavail=(60 << 20) // 4096)
    monkeypatch.setattr(os, "statvfs", lambda _path: space)
    small = machine.shared_memory(tmp_path)
    assert (small.status, small.found) == (Status.LIMITED, "64 MiB, 60 MiB of them free")
    assert "--shm-size" in small.advice
    space.f_bavail = (300 << 20) // 4096
    assert machine.shared_memory(tmp_path).status is Status.OK
    assert list(tmp_path.iterdir()) == []


def test_no_shared_memory(tmp_path):
    check = machine.shared_memory(tmp_path / "absent")
    assert (check.status, check.found) == (Status.MISSING, "No such file or directory")
