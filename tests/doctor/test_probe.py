"""Vendors' libraries that answer, refuse, print, crash and hang: stand-ins, compiled when needed."""

from __future__ import annotations

import shutil
import subprocess

import pytest

from pasta.doctor.probe import probe

SOURCE = r"""
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
static const char *mood(void) { const char *set = getenv("STAND_IN"); return set ? set : ""; }
static int is(const char *name) { return strcmp(mood(), name) == 0; }
int nvmlInit_v2(void) {
    if (is("hangs")) for (;;) pause();
    if (is("crashes")) abort();
    if (is("prints")) { printf("{\"hello\"\n"); fflush(stdout); }
    return is("no driver") ? 9 : 0;
}
const char *nvmlErrorString(int code) { return code == 9 ? "Driver Not Loaded" : "Function Not Found"; }
int nvmlSystemGetDriverVersion(char *text, unsigned size) { snprintf(text, size, "580.95.05"); return 0; }
int nvmlSystemGetCudaDriverVersion_v2(int *version) { *version = 13020; return 0; }
int nvmlDeviceGetCount_v2(unsigned *count) { *count = 2; return 0; }
int nvmlDeviceGetHandleByIndex_v2(unsigned index, void **card) { *card = (void *)(size_t)(index + 1); return 0; }
int nvmlDeviceGetName(void *card, char *name, unsigned size) { snprintf(name, size, "Card %zu", (size_t)card); return 0; }
int nvmlDeviceGetUUID(void *card, char *uuid, unsigned size) { snprintf(uuid, size, "GPU-%zu", (size_t)card); return 0; }
int nvmlDeviceGetMemoryInfo(void *card, unsigned long long *memory) { memory[0] = 80ull << 30; return 0; }
int nvmlDeviceGetCudaComputeCapability(void *card, int *major, int *minor) { *major = 9; *minor = 0; return 0; }
int cuInit(unsigned flags) { return is("no device") ? 100 : 0; }
int cuptiGetVersion(unsigned *version) { *version = 130001; return is("no version") ? 999 : 0; }
int cuptiSubscribe(void **subscriber, void *callback, void *data) { return is("held") ? 39 : 0; }
int cuptiUnsubscribe(void *subscriber) { return 0; }
int cuptiGetResultString(int code, const char **text) {
    *text = code == 39 ? "CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED" : "?"; return 0;
}
"""


@pytest.fixture(scope="module")
def stand_in(tmp_path_factory):
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None:
        pytest.skip("no C compiler for the stand-ins of NVML, CUPTI and CUDA")
    folder = tmp_path_factory.mktemp("vendor")
    (folder / "all.c").write_text(SOURCE)
    library = str(folder / "all.so")
    command = [compiler, "-shared", "-fPIC", "-w", "-o", library, folder / "all.c"]
    subprocess.run(command, check=True, timeout=300)
    return library


def test_nvml_tells_the_driver_and_its_cards(stand_in):
    assert probe("nvml", stand_in) == {
        "driver": "580.95.05",
        "cuda": "13.2",
        "cards": [
            {
                "vendor": "nvidia",
                "name": f"Card {number}",
                "uuid": f"GPU-{number}",
                "memory_bytes": 80 << 30,
                "compute_capability": "9.0",
            }
            for number in (1, 2)
        ],
    }


def test_what_a_library_prints_is_not_the_answer(stand_in, monkeypatch):
    monkeypatch.setenv("STAND_IN", "prints")
    assert probe("nvml", stand_in)["driver"] == "580.95.05"


@pytest.mark.parametrize(
    ("mood", "error"),
    [
        ("no driver", "driver not loaded"),
        ("crashes", "the process that asked ended with exit code -6"),
        ("hangs", "no answer in 1.5 s"),
    ],
)
def test_nvml_that_does_not_answer(stand_in, monkeypatch, mood, error):
    monkeypatch.setenv("STAND_IN", mood)
    assert probe("nvml", stand_in, seconds=1.5 if mood == "hangs" else 60) == {"error": error}


def test_an_absent_library():
    for name in ("nvml", "cupti"):
        assert "/no/such/library.so" in probe(name, "/no/such/library.so")["error"]


@pytest.mark.parametrize(
    ("mood", "answer"),
    [
        ("", {"version": 130001, "cuda": "", "refused": ""}),
        ("no version", {"cuda": "", "refused": ""}),
        ("no device", {"version": 130001, "cuda": "cuInit gives error 100"}),
        (
            "held",
            {
                "version": 130001,
                "cuda": "",
                "refused": "CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED",
            },
        ),
    ],
)
def test_cupti(stand_in, monkeypatch, mood, answer):
    monkeypatch.setenv("STAND_IN", mood)
    assert probe("cupti", stand_in, stand_in) == answer


def test_cupti_without_a_driver(stand_in):
    answer = probe("cupti", stand_in, "/no/such/libcuda.so.1")
    assert "refused" not in answer
    assert "/no/such/libcuda.so.1" in answer["cuda"]
