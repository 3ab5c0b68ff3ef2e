from __future__ import annotations

from pathlib import Path

from click.testing import CliRunner

import pasta
from pasta.cli import cli
from pasta.errors import PastaError


def test_include_prints_the_folder_of_the_header_in_the_package():
    done = CliRunner().invoke(cli, ["include"])
    folder = Path(done.output.removesuffix("\n"))
    assert (done.exit_code, folder) == (0, Path(pasta.__file__).parent / "include")
    assert (folder / "pasta.h").is_file()


def test_include_writes_one_header_that_needs_no_other_of_pasta(tmp_path):
    out = tmp_path / "pasta.h"
    done = CliRunner().invoke(cli, ["include", "-o", str(out)])
    assert (done.exit_code, done.output) == (0, f"wrote {out}\n")
    text = out.read_text()
    assert '#include "' not in text
    assert text.index("pasta_ring_open(pasta_ring") < text.index("void pasta_begin(")


def test_include_says_where_it_cannot_write(tmp_path):
    done = CliRunner().invoke(cli, ["include", "-o", str(tmp_path / "absent" / "pasta.h")])
    assert isinstance(done.exception, PastaError)
    assert "cannot be written (No such file or directory)" in str(done.exception)
