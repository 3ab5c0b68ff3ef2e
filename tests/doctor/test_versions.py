"""Versions as programs print them."""

from __future__ import annotations

import pytest

from pasta.doctor import versions

PRINTED = {
    "NVIDIA Nsight Systems version 2025.5.1.121-255136380782v0": "2025.5.1.121",
    "Cuda compilation tools, release 13.0, V13.0.88\nBuild cuda_13.0.r13.0/compiler.36424714_0": "13.0.88",
    "g++ (Debian 12.2.0-14) 12.2.0\nCopyright (C) 2022": "12.2.0",
    "Version 2025.3.1.0 (build 36398880) (public-release)": "2025.3.1.0",
    "no number": "",
}


@pytest.mark.parametrize("printed", PRINTED)
def test_the_longest_number_of_what_a_program_prints(tmp_path, printed):
    program = tmp_path / "program"
    program.write_text(f'#!/bin/sh\n[ "$1" = --version ] && cat <<"X"\n{printed}\nX\n')
    program.chmod(0o755)
    assert versions.of_program(str(program)) == PRINTED[printed]


def test_a_program_that_does_not_run(tmp_path):
    assert versions.of_program(str(tmp_path / "absent")) == ""


def test_cupti():
    assert [versions.of_cupti(number) for number in (130001, 130200, 28)] == [
        "13.0",
        "13.2",
        "API 28",
    ]


def test_numbers_compare():
    assert versions.numbers("13.10.2") == (13, 10, 2)
    assert versions.numbers("13.4") < versions.numbers("13.10")
    assert versions.numbers("API 28") == versions.numbers("") == ()


def test_beside_the_sanitizer(tmp_path):
    library = tmp_path / "libsanitizer-public.so"
    assert versions.beside_sanitizer(library) == ""
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "VERSION").write_text("13.5\n")
    assert versions.beside_sanitizer(library) == "13.5"
