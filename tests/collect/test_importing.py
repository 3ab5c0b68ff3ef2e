"""Importing files: what is accepted, what is refused with one line, ranks, archives, the cache."""

import gzip
import io
import json
import re
import shutil
import tarfile
from concurrent.futures import ThreadPoolExecutor
from random import Random

import pytest

from pasta.collect.importing import import_cached, import_trace
from pasta.errors import InputError, TraceError
from pasta.trace import Trace


def events(count=20, pid=7):
    return [
        {"ph": "X", "cat": "cpu_op", "name": f"op{n}", "pid": pid, "tid": 1, "ts": 1 + n, "dur": 1}
        for n in range(count)
    ]


def text(count=20, rank=None):
    info = {} if rank is None else {"distributedInfo": {"rank": rank, "world_size": 4}}
    return json.dumps({**info, "traceEvents": events(count)}, indent=1)


def write(path, content):
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("absent.json", None, "absent.json: no such file"),
        ("empty.json", b"", "empty.json: empty file"),
        ("empty.json.gz", gzip.compress(b""), "empty file once unpacked"),
        (
            "cut.json.gz",
            gzip.compress(b"x")[:5],
            "the gzip data ends early, at byte 5; write it again",
        ),
        ("twice.gz", gzip.compress(gzip.compress(b"x")), "it is packed with gzip twice: unpack it"),
        ("a.zip", b"PK\x03\x04" + bytes(30), "it is packed with zip: unpack it"),
        ("a.yaml", b"version: 1\ntool: x\n", "unknown format (starts with 'version: 1"),
        ("a.bin", bytes(range(200)), "unknown format"),
        ("a.csv", b"begin,name\n1,x\n", "say what its columns are: --map MAP.yaml"),
        ("a.json", b'"just text"', "unknown format"),
        ("package.json", b'{"name": "x", "dependencies": []}', "JSON without 'traceEvents'"),
        ("a.json", b"{}", "JSON without 'traceEvents'"),
        ("a.sqlite", b"SQLite format 3\0" + bytes(100), "SQLite format 3"),
    ],
    # Not by their content: gzip's header holds the second at which it was packed.
    ids=lambda value: value if isinstance(value, str) else type(value).__name__,
)
def test_what_cannot_be_imported_is_one_clear_line(tmp_path, name, content, message):
    file = tmp_path / name
    if content is not None:
        file.write_bytes(content)
    with pytest.raises(InputError) as error:
        import_trace([file], tmp_path / "out")
    assert message in str(error.value)
    assert str(file) in str(error.value)
    assert "\n" not in str(error.value)
    assert not (tmp_path / "out").exists()


def test_a_folder_and_no_file_at_all_are_refused(tmp_path):
    with pytest.raises(InputError, match="is a folder of no known format; name the files in it"):
        import_trace([tmp_path], tmp_path / "out")
    with pytest.raises(InputError, match="name at least one"):
        import_trace([], tmp_path / "out")


def test_a_failed_import_leaves_nothing(tmp_path):
    good, bad = write(tmp_path / "a.json", text()), write(tmp_path / "b.json", "hello")
    with pytest.raises(InputError):
        import_trace([good, bad], tmp_path / "runs" / "out")
    assert list((tmp_path / "runs").iterdir()) == []


def test_a_folder_that_holds_something_is_not_touched(tmp_path):
    out = tmp_path / "out"
    out.mkdir()
    write(out / "mine.txt", "x")
    with pytest.raises(TraceError, match="not empty"):
        import_trace([write(tmp_path / "a.json", text())], out)
    assert [path.name for path in out.iterdir()] == ["mine.txt"]


def test_a_folder_that_cannot_be_made_is_one_line(tmp_path):
    file = write(tmp_path / "a.json", text())
    with pytest.raises(
        TraceError, match=r"a\.json/t: cannot be made \(File exists\); choose another -o"
    ):
        import_trace([file], file / "t")


def test_of_two_that_import_into_one_folder_one_is_told_so_and_the_other_keeps_its_trace(tmp_path):
    files = [write(tmp_path / f"{name}.json", text(rank=name)) for name in range(2)]
    out = tmp_path / "runs" / "out"

    def other_is_done_first(_read, _total):
        if not out.exists():
            import_trace([files[1]], out)

    with pytest.raises(
        TraceError, match="out: something else was written there just now; choose another -o"
    ):
        import_trace([files[0]], out, progress=other_is_done_first)
    assert Trace.open(out).info["ranks"] == [1]
    assert list(out.parent.iterdir()) == [out]


def test_an_empty_folder_that_is_a_link_is_one_line(tmp_path):
    (tmp_path / "empty").mkdir()
    (tmp_path / "out").symlink_to("empty")
    with pytest.raises(
        TraceError, match=r"out: cannot be made \(Not a directory\); choose another"
    ):
        import_trace([write(tmp_path / "a.json", text())], tmp_path / "out")


@pytest.mark.parametrize("name", ["plain", "t.json", "t.gz", "t.json.gz", "t.txt"])
def test_the_format_is_told_by_content(tmp_path, name):
    content = gzip.compress(text().encode()) if "gz" in name else text().encode()
    report = import_trace([write(tmp_path / name, content)], tmp_path / "out")
    assert report.rows["span"] == 20
    assert (report.first_ts, report.last_ts) == (1000, 21000)
    assert (report.ranks, report.losses, report.warnings) == ([0], [], [])
    assert report.path == tmp_path / "out"


def test_several_gzip_members_are_one_stream(tmp_path):
    whole = text().encode()
    content = gzip.compress(whole[:500]) + gzip.compress(whole[500:])
    assert import_trace([write(tmp_path / "a", content)], tmp_path / "out").rows["span"] == 20


@pytest.mark.parametrize("compressed", [False, True])
def test_a_file_cut_at_nine_tenths_keeps_its_complete_events(tmp_path, compressed):
    random = Random(5)
    whole = json.dumps(
        {"traceEvents": [{**e, "args": {"x": random.getrandbits(64)}} for e in events(5000)]}
    )
    content = gzip.compress(whole.encode()) if compressed else whole.encode()
    file = write(tmp_path / "cut", content[: len(content) * 9 // 10])
    report = import_trace([file], tmp_path / "out")
    kept = report.rows["span"]
    assert 4000 < kept < 5000
    [(_, reason, count, _)] = report.losses
    assert reason.endswith(f", {kept} events kept")
    assert "cut at byte " in reason
    assert ("gzip data ends early" in reason) == compressed
    assert count == 1
    assert report.warnings == [f"{file}: {reason}"]
    with pytest.raises(InputError, match=r"cut.* at byte \d+: .*leave out --strict"):
        import_trace([file], tmp_path / "strict", strict=True)
    assert not (tmp_path / "strict").exists()


def test_a_file_cut_anywhere_in_an_event_has_lost_nothing_else(tmp_path):
    args = {"x": -1.5e-9, "text": 'ü "\\ \ud83d\ude00', "is": True, "none": None, "of": [[-1], {}]}
    whole = json.dumps({"traceEvents": [{**e, "args": args} for e in events(3)]}).encode()
    ends = [found.end() for found in re.finditer(rb"\}\}", whole)]
    for cut in range(ends[0], ends[1]):
        report = import_trace([write(tmp_path / "cut", whole[:cut])], tmp_path / f"out{cut}")
        [(_, reason, count, _)] = report.losses
        assert (report.rows["span"], count) == (1, 1)
        assert reason == f"the file ends early: cut at byte {cut}, 1 events kept"


def test_damaged_gzip_data_keeps_what_came_before(tmp_path):
    whole = json.dumps({"traceEvents": events(50_000)}).encode()
    content = bytearray(gzip.compress(whole))
    content[len(content) * 3 // 4] ^= 0xFF
    content[len(content) * 3 // 4 + 1] ^= 0xFF
    report = import_trace([write(tmp_path / "bad.gz", bytes(content))], tmp_path / "out")
    assert 0 < report.rows["span"] < 50_000
    assert any("gzip data is damaged" in reason for _, reason, _, _ in report.losses)


@pytest.mark.parametrize("size", [2, 3, 4, 11])
def test_gzip_data_cut_within_its_header_is_one_clear_line(tmp_path, size):
    file = tmp_path / "trace.json.gz"
    file.write_bytes(gzip.compress(b"{}")[:size])
    with pytest.raises(InputError, match=r"trace\.json\.gz: the gzip data ends early"):
        import_trace([file], tmp_path / "out")


def test_a_trace_of_metadata_only_is_an_empty_trace_with_a_reason(tmp_path):
    only = {"ph": "M", "name": "process_name", "pid": 7, "tid": 0, "ts": 0, "args": {"name": "p"}}
    file = write(tmp_path / "m.json", json.dumps({"traceEvents": [only]}))
    report = import_trace([file], tmp_path / "out")
    assert report.warnings == ["no event of any table was found; the trace is empty"]
    assert "span" not in Trace.open(tmp_path / "out").tables()


@pytest.mark.parametrize("content", ["[]", '{"traceEvents": []}', ' {"a": 1, "traceEvents": [ ] }'])
def test_a_trace_without_events_is_empty(tmp_path, content):
    report = import_trace([write(tmp_path / "e.json", content)], tmp_path / "out")
    assert report.warnings == ["no event of any table was found; the trace is empty"]
    assert report.losses == []


def ranks_of(trace):
    frame = trace.scan("span").collect()
    return sorted(frame["rank"].unique().to_list())


@pytest.mark.parametrize(
    ("names", "ranks"),
    [
        (["a.json", "b.json"], [0, 1]),
        (["rank-3.json", "rank12.json"], [3, 12]),
        (["run_rank_7.Apr_03.1102.json", "worker2_step_12.169.json"], [2, 7]),
        (["num_workers4.json", "x.json"], [0, 1]),
    ],
)
def test_ranks_from_names_else_from_order(tmp_path, names, ranks):
    files = [write(tmp_path / name, text()) for name in names]
    report = import_trace(files, tmp_path / "out")
    assert report.ranks == ranks
    assert ranks_of(Trace.open(tmp_path / "out")) == ranks
    folders = sorted(path.name for path in (tmp_path / "out").iterdir() if path.is_dir())
    assert folders == [f"rank-{rank:05d}" for rank in ranks]


def test_the_rank_in_the_file_wins_over_its_name(tmp_path):
    file = write(tmp_path / "rank5.json", text(rank=2))
    assert import_trace([file], tmp_path / "out").ranks == [2]
    assert (tmp_path / "out" / "span").is_dir()


def test_two_files_of_one_rank_are_refused(tmp_path):
    files = [write(tmp_path / "a.json", text(rank=2)), write(tmp_path / "rank2.json", text())]
    with pytest.raises(
        InputError, match=r"rank2.json: is of rank 2 by its name, and so is .*a.json"
    ):
        import_trace(files, tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_given_ranks_win_over_what_files_say(tmp_path):
    files = [write(tmp_path / "rank2.json", text(rank=2)), write(tmp_path / "b.json", text(30))]
    assert import_trace(files, tmp_path / "out", ranks=[9, 4]).ranks == [4, 9]
    found = Trace.open(tmp_path / "out")
    assert ranks_of(found) == [4, 9]
    sizes = found.scan("span").group_by("rank").len().sort("rank").collect()["len"].to_list()
    assert sizes == [30, 20]


@pytest.mark.parametrize(
    ("ranks", "message"),
    [
        ([1], r"b.json: is file 2, but --rank names 1; give one for each file"),
        ([1, 2, 3], r"--rank: 3 ranks are given for 2 files"),
        ([5, 5], r"b.json: is of rank 5 by --rank, and so is .*a.json by --rank"),
    ],
)
def test_ranks_that_do_not_fit_the_files_are_refused(tmp_path, ranks, message):
    files = [write(tmp_path / name, text()) for name in ("a.json", "b.json")]
    with pytest.raises(InputError, match=message):
        import_trace(files, tmp_path / "out", ranks=ranks)
    assert not (tmp_path / "out").exists()


def tar(path, members, mode="w"):
    with tarfile.open(path, mode) as archive:
        for name, content in members.items():
            entry = tarfile.TarInfo(name)
            entry.size = len(content)
            archive.addfile(entry, io.BytesIO(content))
    return path


@pytest.mark.parametrize("mode", ["w", "w:gz"])
def test_members_of_an_archive_are_files_and_never_reach_the_disk(tmp_path, mode):
    members = {
        "../../escape_rank1.json": text().encode(),
        "/etc/rank0.json.gz": gzip.compress(text(30).encode()),
        "empty": b"",
    }
    before = {path for path in tmp_path.parent.rglob("*") if "escape" in path.name}
    report = import_trace([tar(tmp_path / "a.tar", members, mode)], tmp_path / "out")
    assert report.ranks == [0, 1]
    assert report.rows["span"] == 50
    assert {path for path in tmp_path.parent.rglob("*") if "escape" in path.name} == before


TWO_RANKS = {f"rank{rank}.json": text(20_000).encode() for rank in range(2)}
CUT = "the archive is cut or damaged"


@pytest.mark.parametrize("mode", ["w", "w:gz"])
def test_of_an_archive_cut_short_what_is_there_is_kept(tmp_path, mode):
    whole = tar(tmp_path / "a.tar", TWO_RANKS, mode).read_bytes()
    file = write(tmp_path / "cut.tar", whole[: len(whole) * 8 // 10])
    report = import_trace([file], tmp_path / "out")
    assert report.ranks == [0, 1]
    if mode == "w":
        there = file.read_bytes()[whole.index(b"rank1.json") :].count(b"},")
        assert report.rows["span"] == 20_000 + there
    assert 25_000 < report.rows["span"] < 35_000
    assert any(CUT in warning for warning in report.warnings)
    with pytest.raises(InputError, match=CUT):
        import_trace([file], tmp_path / "strict", strict=True)


def test_the_first_of_damaged_events_is_told_with_its_byte(tmp_path):
    text = json.dumps({"traceEvents": events(20)})
    broken = text.replace('"ts": ', '"ts": ?', 15).replace('"ts": ?', '"ts": ', 12)
    file = write(tmp_path / "a.json", broken.encode())
    byte = broken.rindex("{", 0, broken.index("?"))
    [warning] = import_trace([file], tmp_path / "out").warnings
    assert warning.startswith(f"{file}: damaged event: left out (3 times), first at byte {byte} (")


@pytest.mark.parametrize("rest", [0, 300, 512])
def test_an_archive_cut_between_its_members_says_so(tmp_path, rest):
    """At the end of the first member, in the head of the second, and right behind that head."""
    whole = tar(tmp_path / "a.tar", TWO_RANKS).read_bytes()
    second = whole.index(b"rank1.json")
    file = write(tmp_path / "cut.tar", whole[: second + rest])
    report = import_trace([file], tmp_path / "out")
    assert report.ranks == [0]
    assert report.rows["span"] == 20_000
    [warning] = report.warnings
    assert f"rank0.json: {CUT}" in warning


def test_an_archive_damaged_between_its_members_says_so(tmp_path):
    whole = tar(tmp_path / "a.tar", TWO_RANKS).read_bytes()
    file = write(tmp_path / "bad.tar", whole.replace(b"rank1.json", b"rank1.jsoN"))
    report = import_trace([file], tmp_path / "out")
    assert report.rows["span"] == 20_000
    assert len(report.warnings) == 1


def test_an_archive_with_other_files_says_what_to_do(tmp_path):
    file = tar(tmp_path / "a.tar", {"rank0.json": text().encode(), "README": b"what this is"})
    with pytest.raises(
        InputError, match=r"a\.tar:README: unknown format .*; unpack the archive and"
    ):
        import_trace([file], tmp_path / "out")


def test_an_archive_of_which_nothing_can_be_read_is_refused(tmp_path):
    whole = tar(tmp_path / "a.tar", TWO_RANKS).read_bytes()
    for name, content in (("head", whole[:512]), ("none", bytes(10_240))):
        with pytest.raises(InputError, match=name):
            import_trace([write(tmp_path / name, content)], tmp_path / "out")
    empty = tar(tmp_path / "empty.tar", {"a": b""})
    with pytest.raises(InputError, match=r"empty\.tar: archive without a file that holds anything"):
        import_trace([empty], tmp_path / "out")


def test_progress_ends_at_the_total(tmp_path):
    files = [write(tmp_path / f"rank{n}.json", text(100)) for n in range(2)]
    calls = []
    import_trace(files, tmp_path / "out", progress=lambda *call: calls.append(call))
    total = sum(file.stat().st_size for file in files)
    assert calls[-1] == (total, total)
    assert [done for done, _ in calls] == sorted(done for done, _ in calls)


def test_a_cache_that_cannot_be_written_is_one_line(tmp_path, monkeypatch):
    file = write(tmp_path / "a.json", text())
    monkeypatch.setenv("PASTA_CACHE", str(file / "cache"))
    with pytest.raises(TraceError, match=r"a\.json/cache: imports cannot be kept here \("):
        import_cached([file])


@pytest.fixture
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("PASTA_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


def test_a_content_is_imported_into_the_cache_once(tmp_path, cache, monkeypatch):
    file = write(tmp_path / "a.json", text())
    made = import_cached([file])
    assert made.parent == cache
    assert Trace.open(made).rows("span") == 20
    monkeypatch.setattr("pasta.collect.importing.import_trace", None)
    assert import_cached([file]) == made
    shutil.copy(file, tmp_path / "a2.json")
    monkeypatch.undo()


def test_another_content_is_another_trace(tmp_path, cache):
    first = import_cached([write(tmp_path / "a.json", text(20))])
    second = import_cached([write(tmp_path / "a.json", text(21))])
    assert first != second
    assert Trace.open(second).rows("span") == 21
    assert sorted(path.name[:7] for path in cache.iterdir()) == ["import-", "import-"]


def test_two_that_race_for_one_content_get_the_same_trace(tmp_path, cache):
    file = write(tmp_path / "a.json", text(500))
    with ThreadPoolExecutor(4) as pool:
        made = set(pool.map(lambda _: import_cached([file]), range(4)))
    assert len(made) == 1
    assert [path.name for path in cache.iterdir()] == [made.pop().name]


@pytest.mark.usefixtures("cache")
@pytest.mark.parametrize("name", ["absent.json", "."])
def test_the_cache_refuses_what_is_no_file(tmp_path, name):
    with pytest.raises(InputError, match=r"no such file|is a folder"):
        import_cached([tmp_path / name])
