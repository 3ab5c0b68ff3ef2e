"""Configs, traces and names in them are untrusted: nothing leaves its folder, nothing runs away."""

from __future__ import annotations

import io
import json

import pytest
from rich.console import Console

import pasta
from pasta import api
from pasta.errors import ConfigError, PastaError, TraceError
from pasta.tools.text import print_report

HEAD = "version: 1\ntool: t\nabout: A.\ninputs: {k: {table: kernel}}\n"
KERNEL = {"device": 0, "launch_id": 1, "ts": 0, "dur": 5, "name": "k"}


def write(folder, text, name="tool.yaml"):
    (folder / name).write_text(text)
    return str(folder / name)


@pytest.mark.parametrize("name", ["/../evil", "../../evil", "a b", "x" * 300, "nul\\0", "ü", ""])
def test_names_that_become_files_are_words(tmp_path, name):
    stage = f'stages: {{"{name}": {{use: filter, from: k, where: dur > 1}}}}\n'
    with pytest.raises(ConfigError, match="is no name"):
        api.check(write(tmp_path, HEAD + stage))


@pytest.mark.parametrize("name", ["/etc/passwd", "../outside.yaml", "nowhere"])
def test_includes_stay_in_the_folder_and_print_no_content(tmp_path, name):
    secret = write(tmp_path, "secret: content", "outside.yaml")
    inner = tmp_path / "inner"
    inner.mkdir()
    with pytest.raises(ConfigError) as caught:
        api.check(write(inner, HEAD + f"include: {{a: {name}}}\n"))
    assert "is no shipped tool, nor a YAML file beside this one" in str(caught.value)
    assert "root:" not in str(caught.value)
    assert secret


def test_includes_resolve_beside_their_file(tmp_path):
    part = HEAD + "stages: {long: {use: filter, from: k, where: dur > 1}}\n"
    write(tmp_path, part.replace("tool: t", "tool: part"), "part.yaml")
    outer = HEAD + "include: {p: part.yaml}\nreport: [{table: p.long}]\n"
    _, graph = api.check(write(tmp_path, outer))
    assert list(graph.nodes) == ["p.long"]


def test_circles_and_explosions_of_includes_end(tmp_path):
    one = write(tmp_path, HEAD + "include: {a: ./tool.yaml}\n")
    with pytest.raises(ConfigError, match="circle: t -> t"):
        api.check(one)
    for level in range(14):
        stage = "stages: {s: {use: filter, from: k, where: dur > 1}}\n"
        include = f"include: {{a: n{level + 1}.yaml, b: n{level + 1}.yaml}}\n" if level < 13 else ""
        text = HEAD.replace("tool: t", f"tool: n{level}") + include + stage
        write(tmp_path, text, f"n{level}.yaml")
    with pytest.raises(ConfigError, match=r"includes go deeper than \d+|more than 1000 stages"):
        api.check(str(tmp_path / "n0.yaml"))


def test_alias_bombs_are_cut_in_messages(tmp_path):
    levels = ["a0: &a0 [x, x, x, x, x, x, x, x, x]"]
    levels += [f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 9)}]" for i in range(1, 10)]
    text = "version: 1\ntool: t\nabout:\n  - " + "\n  - ".join(
        "{" + level + "}" for level in levels
    )
    with pytest.raises(ConfigError) as caught:
        api.check(write(tmp_path, text))
    assert len(str(caught.value)) < 500


@pytest.mark.parametrize(
    "text", ["tool: 2001-99-99", "version: 0x_", "version: true", "version: 1.0"]
)
def test_values_that_cannot_be(tmp_path, text):
    with pytest.raises(ConfigError):
        api.check(write(tmp_path, text))


def test_a_link_out_of_a_trace_is_refused(make_trace):
    inside = make_trace("in", kernel=[KERNEL])
    outside = make_trace("out", copy=[{"device": 0, "ts": 0, "dur": 1}])
    (inside.path / "copy").symlink_to(outside.path / "copy")
    with pytest.raises(TraceError, match="leads out of the trace"):
        pasta.open(inside.path).files("copy")


@pytest.mark.parametrize(
    "manifest",
    ["[", "{}", '{"schema_version": Infinity}', '{"schema_version": -1}', "[" * 100_000, "5", ""],
)
def test_damaged_manifests(make_trace, manifest):
    trace = make_trace(kernel=[KERNEL])
    (trace.path / "trace.json").write_text(manifest)
    with pytest.raises(TraceError, match="damaged"):
        pasta.open(trace.path)


def test_garbage_between_the_marks_of_parquet_is_named(make_trace):
    trace = make_trace(kernel=[KERNEL])
    file = trace.path / "kernel" / "000000.parquet"
    file.write_bytes(b"PAR1" + b"\xff" * 500 + b"PAR1")
    with pytest.raises(TraceError, match=r"000000\.parquet: .*not a complete Parquet file"):
        pasta.run("kernel_frequency", trace=trace.path)


def test_a_column_of_another_type_is_named(make_trace):
    import polars as pl

    trace = make_trace(kernel=[KERNEL])
    file = trace.path / "kernel" / "000000.parquet"
    pl.read_parquet(file).with_columns(pl.col("ts").cast(pl.Float64)).write_parquet(file)
    with pytest.raises(TraceError, match="column 'ts' is double, but the schema says int64"):
        pasta.run("kernel_frequency", trace=trace.path)


def test_control_characters_do_not_reach_the_terminal(make_trace):
    name = "\x1b[31mred\x07\x9b"
    report = pasta.run("kernel_frequency", trace=make_trace(kernel=[{**KERNEL, "name": name}]))
    report.losses.append({"collector": None, "reason": name, "count": 1, "first_ts": None})
    stream = io.StringIO()
    print_report(report, Console(file=stream, width=100))
    assert not set("\x1b\x07\x9b") & set(stream.getvalue())
    assert report.tables["top"]["name"].item() == name


def test_unwritable_outputs_are_named(make_trace, tmp_path):
    blocked = tmp_path / "file"
    blocked.write_text("")
    with pytest.raises(PastaError, match="file: cannot be made"):
        pasta.run("kernel_frequency", trace=make_trace(kernel=[KERNEL]), out=blocked)


@pytest.mark.parametrize("name", ["trace", "runs", "out", "tool", "engine"])
def test_parameters_may_not_hide_the_arguments_of_run(tmp_path, name):
    text = HEAD + f"parameters: {{{name}: {{type: int, default: 1}}}}\n"
    with pytest.raises(ConfigError, match="may not be called"):
        api.check(write(tmp_path, text))


def test_messages_are_json_safe(make_trace):
    from pasta.tools.json import render_json

    report = pasta.run("kernel_frequency", trace=make_trace(kernel=[KERNEL]))
    report.facts["odd"] = float("nan")
    assert json.loads(render_json(report))["facts"]["odd"] is None
