"""A stand-in for NVML: a library of a few lines of C, compiled when a test needs it."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

SOURCE = r"""
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
typedef struct { unsigned long long total, free, used; } Memory;
typedef struct { unsigned gpu, memory; } Utilisation;
typedef struct { unsigned field, scope; long long timestamp, latency; int kind, code;
                 union { double d; unsigned u; unsigned long long l; } value; } Field;
static int on(const char *name) { return getenv(name) != NULL; }
static unsigned index_of(void *card) { return (unsigned)((size_t)card - 1); }
static unsigned long long samples;
int nvmlInit_v2(void) {
    if (on("STAND_IN_HANGS")) for (;;) pause();
    if (on("STAND_IN_TALKS")) write(1, "NVML: hello\n", 12);
    return on("STAND_IN_NO_DRIVER") ? 9 : 0;
}
const char *nvmlErrorString(int code) {
    return code == 9 ? "Driver Not Loaded" : code == 4 ? "Insufficient Permissions"
         : code == 3 ? "Not Supported" : code == 15 ? "GPU is lost" : "Function Not Found";
}
int nvmlDeviceGetCount_v2(unsigned *count) {
    *count = on("STAND_IN_CARDS") ? atoi(getenv("STAND_IN_CARDS")) : 2;
    return 0;
}
int nvmlDeviceGetHandleByIndex_v2(unsigned index, void **card) { *card = (void *)(size_t)(index + 1); return 0; }
int nvmlDeviceGetName(void *card, char *name, unsigned size) { snprintf(name, size, "Card"); return 0; }
int nvmlDeviceGetUUID(void *card, char *uuid, unsigned size) {
    snprintf(uuid, size, "GPU-0000000%u-aaaa", index_of(card)); return 0;
}
int nvmlDeviceGetMemoryInfo(void *card, Memory *memory) {
    memory->total = 80ull << 30; memory->used = 1000ull + index_of(card); return 0;
}
int nvmlDeviceGetCudaComputeCapability(void *card, int *major, int *minor) { *major = 9; *minor = 0; return 0; }
int nvmlDeviceGetClockInfo(void *card, int kind, unsigned *clock) {
    *clock = (kind == 1 ? 1980 : 2619) + index_of(card); return 0;
}
int nvmlDeviceGetPowerUsage(void *card, unsigned *power) {
    *power = 90067; return on("STAND_IN_NO_POWER") ? 4 : 0;
}
int nvmlDeviceGetTotalEnergyConsumption(void *card, unsigned long long *energy) {
    *energy = (1ull << 40) + 7 * samples++; return 0;
}
int nvmlDeviceGetTemperature(void *card, int sensor, unsigned *temperature) {
    *temperature = 35; return on("STAND_IN_LOST") ? 15 : 0;
}
int nvmlDeviceGetUtilizationRates(void *card, Utilisation *rates) { rates->gpu = 97; rates->memory = 41; return 0; }
int nvmlDeviceGetCurrentClocksThrottleReasons(void *card, unsigned long long *reasons) { *reasons = 0x24; return 0; }
int nvmlDeviceGetFieldValues(void *card, int count, Field *field) {
    field->code = 0;
    if (field->field == 186) { field->kind = 1; field->value.u = 70718; }
    else if (field->field == 82) { field->code = 3; }
    else if (field->field == 90) { field->kind = 1; field->value.u = 26562; field->code = on("STAND_IN_NVLINK") ? 0 : 3; }
    return 0;
}
typedef struct { char legacy[16]; unsigned numbers[5]; char bus[32]; } Pci;
static int switched(void) { return on("STAND_IN_NVLINK") && !strcmp(getenv("STAND_IN_NVLINK"), "switches"); }
int nvmlDeviceGetPciInfo_v3(void *card, Pci *pci) {
    snprintf(pci->bus, sizeof pci->bus, "00000000:%02X:00.0", 0xA0 + index_of(card)); return 0;
}
/* Of three links the second is down; links beyond the third are not there. */
int nvmlDeviceGetNvLinkState(void *card, unsigned link, unsigned *active) {
    *active = link != 1; return !on("STAND_IN_NVLINK") ? 3 : link < 3 ? 0 : 2;
}
int nvmlDeviceGetNvLinkVersion(void *card, unsigned link, unsigned *version) { *version = 6; return 0; }
int nvmlDeviceGetNvLinkRemoteDeviceType(void *card, unsigned link, unsigned *kind) {
    *kind = switched() ? 2 : 0; return 0;
}
int nvmlDeviceGetNvLinkRemotePciInfo_v2(void *card, unsigned link, Pci *pci) {
    unsigned bus = switched() ? 0xC0 + link : 0xA0 + !index_of(card);
    snprintf(pci->bus, sizeof pci->bus, "00000000:%02X:00.0", bus); return 0;
}
"""


def compiled(folder: Path) -> Path:
    """Compile the stand-in under NVML's name, or skip."""
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None:
        pytest.skip("no C compiler for the stand-in of NVML")
    source = folder / "nvml.c"
    source.write_text(SOURCE)
    library = folder / "libnvidia-ml.so.1"
    subprocess.run(
        [compiler, "-shared", "-fPIC", "-w", "-o", library, source], check=True, timeout=300
    )
    return library
