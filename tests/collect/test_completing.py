"""Which part a file completes."""

from pathlib import Path

import pytest

from pasta.collect.completing import Part, part_of
from pasta.collect.sources import Source
from pasta.errors import InputError
from pasta.trace_writer import PartWriter


class Completes:
    """Stands for an importer of files that say their process or not."""

    completes = "kineto"

    def __init__(self, pid=None):
        self.pid = pid

    def process_of(self, _):
        return self.pid


def source(name):
    return Source(name, b"", iter(()), 1)


def parts(*pids, importer="kineto"):
    return [
        Part(f"f{rank}", importer, rank, "", pid, PartWriter(Path("x")))
        for rank, pid in enumerate(pids)
    ]


@pytest.mark.parametrize(
    ("pids", "pid", "name", "rank"),
    [
        ((10, 11, 12), 12, "a.json", 2),
        ((10, 11, 12), 12, "rank1.json", 2),
        ((1, 1, 1), 1, "a.tar.gz:et_rank2.json", 2),
        ((1, 1, 1), 1, "a.json", 0),
        ((1, 1, 1), None, "worker_1.json", 1),
        ((1, 1), 7, "a.json", 0),
    ],
)
def test_the_part_of_the_same_process_else_rank_else_order(pids, pid, name, rank):
    assert part_of(source(name), Completes(pid), parts(*pids)).rank == rank


def test_each_part_is_completed_once():
    known = parts(1, 1)
    for rank in range(2):
        found = part_of(source("a"), Completes(1), known)
        assert found.rank == rank
        found.complete = True
    with pytest.raises(InputError, match="a: completes no other file that is given"):
        part_of(source("a"), Completes(1), known)


def test_a_process_that_is_complete_is_not_mistaken_for_another():
    known = parts(1, 2)
    known[0].complete = True
    with pytest.raises(InputError, match="give the kineto file of the same process as well"):
        part_of(source("a"), Completes(1), known)


def test_parts_of_other_importers_do_not_count():
    with pytest.raises(InputError):
        part_of(source("a"), Completes(1), parts(1, importer="nsys_sqlite"))
