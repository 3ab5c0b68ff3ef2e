"""Mistakes in the arguments of stages are found on empty tables, with the path of the key."""

from __future__ import annotations

import pytest

from pasta.errors import ConfigError
from pasta.pipeline.config import parse_config
from pasta.pipeline.wiring import build_graph
from pasta.yaml_text import read_yaml

HEAD = """
version: 1
tool: example
about: An example.
inputs: {kernels: {table: kernel}, spans: {table: span}, calls: {table: call}, memory: {table: memory}, accesses: {table: access}, copies: {table: copy}}
parameters: {n: {type: int, default: 5}, f: {type: float, default: 0.5}}
stages:
  lives: {use: lifetimes, from: memory}
  a: """


def check(stage: str, **settings):
    config = parse_config(read_yaml(HEAD + stage))
    return build_graph(config, settings, lambda _name, _includer: config).schemas["a"]


@pytest.mark.parametrize(
    ("stage", "message"),
    [
        ("{use: aggregate, from: kernels, by: '^(name|stream)$', measures: {n: count(*)}}", "by: no column '^(name|stream)$'"),
        ("{use: aggregate, from: kernels, by: nam, measures: {n: count(*)}}", "by: no column 'nam'. Did you mean 'name'?"),
        ("{use: aggregate, from: spans, by: input_shapes, measures: {n: count(*)}}", "by: column 'input_shapes' is List(String); a list is no key"),
        ("{use: aggregate, from: kernels, measures: {x: dur / sum(dur)}}", "measures.x: column 'dur'"),
        ("{use: aggregate, from: kernels, measures: {x: sum(dur) over (partition by name)}}", "measures.x: "),
        ("{use: aggregate, from: kernels, measures: {x: {quantile: [dur, f]}}}", "measures.x.quantile: q must be from 0 to 1, got 'f'"),
        ("{use: sort, from: kernels, by: '^d.*$'}", "by: no column '^d.*$'"),
        ("{use: sort, from: spans, by: input_shapes}", "by: column 'input_shapes' is List"),
        ("{use: top, from: kernels, by: '*', n: 3}", "by: no column '*'"),
        ("{use: top, from: kernels, by: dur, n: -1}", "n: must be 0 or more, got -1"),
        ("{use: top, from: kernels, by: dur, n: 100000000000000000000}", "n: an integer of 67 bits does not fit in 64"),
        ("{use: select, from: kernels, columns: ['*']}", "columns: no column '*'"),
        ("{use: select, from: kernels, columns: {x: '^d.*$'}}", "columns: no column '^d.*$'"),
        ("{use: select, from: kernels, columns: {'*': dur}}", "columns: '*' would be read as a pattern"),
        ("{use: derive, from: kernels, columns: {'^x$': dur}}", "columns: '^x$' would be read as a pattern"),
        ("{use: aggregate, from: kernels, measures: {'*': sum(dur)}}", "measures: '*' would be read as a pattern"),
        ("{use: dedupe, from: kernels, by: ['*']}", "by: no column '*'"),
        ("{use: dedupe, from: kernels, by: []}", "by: needs at least one column"),
        ("{use: dedupe, from: kernels, by: name, order: '^d.*$'}", "order: no column '^d.*$'"),
        ("{use: dedupe, from: spans, by: input_shapes}", "by: column 'input_shapes' is List"),
        ("{use: join, from: [kernels, calls], on: '^c.*$'}", "on: no column '^c.*$'"),
        ("{use: join, from: [kernels, calls], on: {correlation: corelation}}", "on: no column 'corelation'. Did you mean 'correlation'?"),
        ("{use: join, from: [kernels, calls], on: {correlation: ts}}", "on: column 'correlation' is UInt64 in left and Int64 in right"),
        ("{use: join, from: [kernels, calls], on: correlation, columns: {x: '*'}}", "columns: no column '*'"),
        ("{use: join, from: [kernels, calls], on: []}", "on: needs at least one column"),
        ("{use: join, from: [spans, spans], on: input_shapes}", "on: column 'input_shapes' is List"),
        ("{use: concat, from: []}", "from: needs at least one input"),
        ("{use: concat, from: [kernels, b]}, b: {use: derive, from: kernels, columns: {dur: name}}", "from: the inputs hold column 'dur' as Int64 and String"),
        ("{use: concat, from: [kernels, copies], label: source, values: [k, c]}", "label: the rows have a column 'source' already; name the new one otherwise, or leave theirs out before by 'select'"),
        ("{use: granules, from: accesses, size: 32, column: address}", "column: the rows have a column 'address' already"),
        ("{use: number, from: kernels, by: [name], column: name}", "column: the rows have a column 'name' already"),
        ("{use: number, from: kernels, by: [name], column: '*'}", "column: '*' would be read as a pattern"),
        ("{use: added_time, from: kernels, by: [rank], column: dur}", "column: the rows have a column 'dur' already"),
        ("{use: shared_time, from: [kernels, copies], by: [rank], column: dur}", "column: the rows have a column 'dur' already"),
        ("{use: reuse_distance, from: accesses, by: [rank], of: address, order: lane, column: lane}", "column: the rows have a column 'lane' already"),
        ("{use: live, from: [kernels, lives], by: [rank], column: dur}", "column: the rows have a column 'dur' already"),
        ("{use: ancestors, from: spans, of: name}", "of: the rows have a column 'name' already"),
        ("{use: ancestors, from: spans, of: depth}", "of: 'depth' is the name of the other new column"),
        ("{use: path_texts, from: [spans, spans], node: span_id, parent: parent_id, column: name}", "column: the rows have a column 'name' already"),
        ("{use: correlate, from: [kernels, calls], by: correlation, columns: {ts: ts}}", "columns: the rows have a column 'ts' already"),
        ("{use: window, from: {rows: kernels}, every: 0}", "every: must be longer than 0 ns, got 0"),
        ("{use: window, from: {rows: kernels}, every: -5}", "every: must be longer than 0 ns, got -5"),
        ("{use: window, from: {rows: kernels}, every: 5, slide: -5}", "slide: must be longer than 0 ns, got -5"),
        ("{use: window, from: {rows: kernels}, every: 9999999999h}", "every: an integer of "),
        ("{use: window, from: {rows: kernels}, every: 5, time: name}", "time: column 'name' holds no integers"),
        ("{use: busy, from: kernels, by: device, start: name}", "column 'name' is String; expected integers"),
        ("{use: busy, from: kernels, by: device, duration: name}", "column 'name' is String; expected integers"),
        ("{use: busy, from: spans, by: input_shapes}", "by: column 'input_shapes' is List"),
        ("{use: busy, from: kernels, by: '^(rank|device)$'}", "by: no column '^(rank|device)$'"),
        ("{use: overlap, from: [kernels, kernels], by: device, start: name}", "column 'name' is String"),
        ("{use: coverage, from: memory, by: device, kind: event, kinds: [a], start: space, duration: bytes}", "column 'space' is String"),
        ("{use: coverage, from: kernels, by: device, kind: stream, kinds: [a]}", "kind: column 'stream' is Int64; expected text"),
        ("{use: enclose, from: [calls, spans], time: name}", "column 'name' is String"),
        ("{use: locate, from: [memory, lives], address: event}", "column 'event' is String"),
        ("{use: locate, from: [memory, lives], time: event}", "column 'event' is String"),
        ("{use: locate, from: [memory, lives], by: [nope]}", "from.accesses: needs column 'nope'"),
        ("{use: correlate, from: [calls, spans], by: containment, columns: {span: name}, time: name}", "column 'name' is String"),
        ("{use: rollup, from: spans, values: [dur], node: name}", "column 'name' is String"),
        ("{use: rollup, from: spans, values: [name]}", "values: column 'name' is String; expected numbers"),
        ("{use: rollup, from: spans, values: [dur], name: input_shapes}", "name: column 'input_shapes' is List"),
        ("{use: call_paths, from: [spans], node: name}", "column 'name' is String"),
    ],
)  # fmt: skip
def test_is_named_with_its_path(stage, message):
    stage, _, more = stage.partition("}, b: ")
    with pytest.raises(ConfigError) as caught:
        check(f"{stage}}}\n  b: {more}" if more else stage)
    text = str(caught.value)
    assert text.startswith("stages.a")
    assert f"stages.a.{message}" in text or f"stages.a: {message}" in text
    assert "\n" not in text


def test_a_parameter_that_does_not_fit_is_named():
    assert check("{use: top, from: kernels, by: dur, n: $n}").names()[0] == "rank"
    with pytest.raises(ConfigError, match=r"^stages\.a\.n: must be 0 or more, got -1"):
        check("{use: top, from: kernels, by: dur, n: $n}", n="-1")
    with pytest.raises(ConfigError, match=r"^parameters\.f: expected a finite number, got nan"):
        check("{use: filter, from: kernels, where: dur > $f}", f="nan")
    with pytest.raises(ConfigError, match=r"^parameters\.n: an integer of 150 bits"):
        check("{use: filter, from: kernels, where: dur > $n}", n="9" * 45)
    with pytest.raises(ConfigError, match=r"^stages\.a\.n: expected int, got 0\.5 \(parameter 'f'"):
        check("{use: top, from: kernels, by: dur, n: $f}")
