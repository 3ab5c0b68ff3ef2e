"""Reports of Nsight Systems are exported by an installed nsys, or their users told what to do."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from pasta.errors import InputError
from tests.collect.importers.nsys_help import KERNEL, export, imported, kernel, rows


@pytest.fixture
def report(tmp_path: Path) -> Path:
    path = tmp_path / "run.nsys-rep"
    path.write_bytes(b"\0\1\2 a report")
    return path


def install_nsys(folder: Path, patch: pytest.MonkeyPatch, program: str) -> None:
    """Put a program named nsys first on PATH; `OUT` and `FILE` in it are its arguments."""
    folder.mkdir()
    script = folder / "nsys"
    script.write_text(
        f"#!{sys.executable}\n"
        "import shutil, sys\n"
        "assert sys.argv[1:5] == ['export', '--type', 'sqlite', '--output']\n"
        f"OUT, FILE = sys.argv[5:]\n{program}\n"
    )
    script.chmod(0o755)
    patch.setenv("PATH", str(folder))


def test_without_nsys_the_command_is_told(
    report: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path / "nowhere"))
    with pytest.raises(InputError, match="nsys export --type sqlite FILE") as caught:
        imported(report, tmp_path / "out")
    assert "\n" not in str(caught.value)


def test_an_installed_nsys_exports_it(
    report: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = export(tmp_path / "made", CUPTI_ACTIVITY_KIND_KERNEL=(KERNEL, [kernel(10, 30)]))
    program = f"assert open(FILE, 'rb').read(3) == b'\\0\\1\\2'; shutil.copy({str(made)!r}, OUT)"
    install_nsys(tmp_path / "bin", monkeypatch, program)
    trace, told = imported(report, tmp_path / "out")
    assert [row["dur"] for row in rows(trace, "kernel")] == [20]
    assert told.losses == []
    assert sorted(path.name for path in tmp_path.iterdir()) == ["bin", "made", "out", report.name]


def test_a_refusal_is_passed_on_in_one_line(
    report: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = "sys.exit('The report was made by a newer version:\\n2026.9 is needed.')"
    install_nsys(tmp_path / "bin", monkeypatch, program)
    with pytest.raises(InputError, match=r"a newer version: 2026\.9 is needed\.\)") as caught:
        imported(report, tmp_path / "out")
    assert "\n" not in str(caught.value)
    assert not (tmp_path / "out").exists()
