"""Of files that tell names of code made at run time, those of Python are removed, and no others."""

from pasta.collect.companions.cpu.python_frames import remove_files


def test_only_what_python_wrote_of_the_processes_is_removed(tmp_path):
    python = b"7f00 40 py::main:/a.py\n7f40 40 jit_kernel\n"
    (tmp_path / "perf-7.map").write_bytes(python)
    (tmp_path / "jit-7.dump").write_bytes(b"\x00DTiJ\x00py::main:/a.py\x00")
    (tmp_path / "jitted-7-1.so").write_bytes(b"\x7fELF")
    (tmp_path / "perf-8.map").write_bytes(b"7f00 40 LazyCompile:~main a.js:1\n")
    (tmp_path / "perf-9.map").write_bytes(python)
    (tmp_path / "elsewhere").write_bytes(python)
    (tmp_path / "perf-10.map").symlink_to(tmp_path / "elsewhere")
    remove_files([7, 8, 10, 11], tmp_path)
    left = {file.name for file in tmp_path.iterdir()}
    assert left == {"perf-8.map", "perf-9.map", "perf-10.map", "elsewhere"}
