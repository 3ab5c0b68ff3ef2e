"""Only plain files are read, and nothing is waited for."""

import os

import pytest

from pasta.collect.plain_file import read_plain_file


def test_a_plain_file_is_read_as_far_as_is_wanted(tmp_path):
    file = tmp_path / "a"
    file.write_bytes(b"abcdef")
    assert read_plain_file(file) == b"abcdef"
    assert read_plain_file(file, 3) == b"abc"


def test_pipes_links_folders_and_what_is_absent_are_refused(tmp_path):
    (tmp_path / "a").write_bytes(b"abc")
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "link").symlink_to(tmp_path / "a")
    for name in ("pipe", "link", ".", "absent"):
        with pytest.raises(OSError, match=r"plain file|symbolic link|No such file|directory"):
            read_plain_file(tmp_path / name)
