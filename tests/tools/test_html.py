"""Pages: self-contained, with names from traces as text, and numbers as the terminal shows them."""

from __future__ import annotations

import base64
import gzip
import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from pasta.tools.html import render_page
from pasta.tools.report import ChartPart, Report, TablePart
from pasta.tools.units import human

HOSTILE = (
    "</script><script>document.title='taken'</script><img src=x onerror=\"document.title='taken'\">"
)
VALUES = {
    "dur": [0, 7, 999, 1000, 1_234_567, 59_999_999_999, 3_600_000_000_000, None],
    "bytes": [0, 1023, 1024, 1536, 5 << 30, 1 << 45, 12345, None],
    "share": [0.0, 0.12345, 1.0, 0.99951, 0.00024571, 0.0004, 3e-9, None],
    "address": [0, 4096, 0x7F1234567890, (1 << 64) - 1, 16, 255, 1 << 53, None],
    "stream_id": [0, 7, 1234, 99999, 1 << 60, 5, 6, None],
    "ratio": [0.5, 1234.5678, 0.012345, 98765.4321, 3.0, 1e-3, 12.3456, None],
    "count": [0, 999, 1000, 1234567, 1 << 55, 1, 2, None],
}


def report(*parts: TablePart | ChartPart, **given: Any) -> Report:
    made = Report("tool", "What it answers.", {"top": 3}, "cpu", {"t": "/t"}, **given)
    made.parts += parts
    return made


def payload_of(page: str) -> dict[str, Any]:
    packed = re.search(r'id="payload">([^<]*)<', page)
    assert packed is not None
    found: dict[str, Any] = json.loads(gzip.decompress(base64.b64decode(packed[1])))
    return found


def table_of_values() -> TablePart:
    types = {"address": pl.UInt64, "stream_id": pl.UInt64}
    return TablePart("values", "Values", pl.DataFrame(VALUES, schema_overrides=types))


def test_a_page_fetches_nothing() -> None:
    page = render_page([report(table_of_values())])
    assert not re.search(
        r"<(?:script|link|img|iframe)[^>]+(?:src|href)=", page.partition("<body>")[0]
    )
    assert "default-src 'none'" in page
    assert len(page) < 5_000_000


def test_names_are_never_markup() -> None:
    rows = pl.DataFrame({"name": [HOSTILE], "dur": [1]})
    page = render_page(
        [report(TablePart("names", HOSTILE, rows), findings=[HOSTILE])], title=HOSTILE
    )
    assert HOSTILE not in page
    assert page.count("<script") == 2
    (shown,) = payload_of(page)["reports"]
    assert shown["findings"] == [HOSTILE]
    assert shown["parts"][0]["columns"][0]["cells"] == [HOSTILE]


def test_large_numbers_travel_exactly() -> None:
    (shown,) = payload_of(render_page([report(table_of_values())]))["reports"]
    columns = {column["name"]: column for column in shown["parts"][0]["columns"]}
    assert columns["address"]["kind"] == "whole"
    assert columns["address"]["cells"][3] == str((1 << 64) - 1)
    assert columns["dur"]["kind"] == "number"


def test_rows_beyond_what_a_page_holds_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pasta.tools.html.payload.MOST_ROWS", 5)
    rows = pl.DataFrame({"name": list("abcdefgh")})
    (shown,) = payload_of(render_page([report(TablePart("names", "Names", rows))]))["reports"]
    assert (shown["parts"][0]["rows"], shown["parts"][0]["all_rows"]) == (5, 8)


def test_a_chart_keeps_what_joins_its_points_and_that_its_axes_are_logarithmic() -> None:
    rows = pl.DataFrame({"x": [1.0, 2.0, 3.0], "y": [1.0, 2.0, 2.0], "path": [None, "a", "a"]})
    roles: dict[str, Any] = {"x": "x", "y": "y", "path": "path"}
    made = report(ChartPart("scatter", "Points", rows, roles, 20, log=True))
    [shown] = payload_of(render_page([made]))["reports"][0]["parts"]
    assert (shown["log"], shown["roles"]["path"]) == (True, "path")
    assert shown["columns"]["path"]["cells"] == [None, "a", "a"]


LOSS = {"collector": "torch", "reason": "no free slot", "count": 1200}


def test_losses_of_several_tools_stand_once_with_the_tools() -> None:
    other = report(losses=[LOSS, {**LOSS, "reason": "no clock"}])
    other.tool = "other"
    found = payload_of(render_page([report(losses=[LOSS]), other]))
    assert found["losses"] == [
        ["torch", "no free slot", "1,200", "all"],
        ["torch", "no clock", "1,200", "other"],
    ]
    assert [shown["losses"] for shown in found["reports"]] == [[], []]


def test_losses_of_several_traces_are_added_up() -> None:
    other = report(losses=[LOSS, {**LOSS, "count": 34}])
    other.tool = "other"
    found = payload_of(render_page([report(losses=[LOSS, {**LOSS, "count": 34}]), other]))
    assert found["losses"] == [["torch", "no free slot", "1,234", "all"]]


def test_findings_of_all_tools_come_by_weight_and_those_of_nothing_last() -> None:
    weights = {"nothing": -1.0, "some": 0.0, "little": 0.1, "most": 0.9, "not first": 1.0}
    made = [report(findings=[text]) for text in ("nothing", "some", "little")]
    made.append(report(findings=["most", "not first"]))
    for number, each in enumerate(made):
        each.tool, each.weights = f"t{number}", weights
    found = payload_of(render_page(made))
    assert found["strongest"] == ["t3: most", "t2: little", "t1: some", "t0: nothing"]


def test_losses_of_one_tool_stand_in_its_report() -> None:
    found = payload_of(render_page([report(losses=[LOSS])]))
    assert found["losses"] == []
    assert found["reports"][0]["losses"] == [["torch", "no free slot", "1,200"]]


BROWSER = (
    shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
)
CHARTS = {
    "bar": {"x": "name", "y": "dur"},
    "line": {"x": "ts", "y": "dur", "series": "lane"},
    "heatmap": {"x": "ts", "y": "address", "value": "dur"},
    "scatter": {"x": "ts", "y": "dur", "label": "name", "path": "path"},
    "interval": {"x": "ts", "value": "dur", "y": "lane", "series": "name"},
    "flame": {"x": "path", "y": "dur"},
    "parallel": {"columns": ["ts", "dur", "address"]},
}


def in_browser(page: str, script: str, tmp_path: Path) -> dict[str, Any]:
    """Load a page, run `script` in it, and return what it puts into `result`."""
    probe = f"""<script>
    window.problems = [];
    addEventListener("error", (event) => problems.push(event.message));
    addEventListener("unhandledrejection", (event) => problems.push(String(event.reason)));
    const wait = setInterval(async () => {{
      if (!document.body.dataset.ready && !problems.length) return;
      clearInterval(wait);
      const result = {{}};
      try {{ {script} }} catch (error) {{ problems.push(String(error)); }}
      result.problems = problems;
      const place = document.createElement("pre");
      place.id = "result";
      place.textContent = btoa(encodeURIComponent(JSON.stringify(result)));
      document.body.append(place);
    }}, 50);
    </script>"""
    file = tmp_path / "page.html"
    file.write_text(
        page.replace('<script type="application', probe + '<script type="application', 1)
    )
    flags = "--headless --no-sandbox --disable-gpu --disable-quic --no-first-run --disable-sync"
    flags += " --disable-background-networking --disable-component-update"
    flags += f" --user-data-dir={tmp_path / 'profile'} --virtual-time-budget=600000 --dump-dom"
    assert BROWSER is not None
    done = subprocess.run(
        [BROWSER, *flags.split(), f"file://{file}"],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    found = re.search(r'id="result">([^<]*)<', done.stdout)
    assert found is not None, done.stderr[-2000:]
    from urllib.parse import unquote

    result: dict[str, Any] = json.loads(unquote(base64.b64decode(found[1]).decode()))
    assert result["problems"] == []
    return result


needs_browser = pytest.mark.skipif(BROWSER is None, reason="there is no Chromium on this machine")


@needs_browser
def test_numbers_look_as_they_do_in_the_terminal(tmp_path: Path) -> None:
    script = """
      const data = await unpacked();
      for (const column of data.reports[0].parts[0].columns)
        result[column.name] = column.cells.map((cell) => human(cell, column));
    """
    result = in_browser(render_page([report(table_of_values())]), script, tmp_path)
    for name, values in VALUES.items():
        assert result[name] == [human(value, name) for value in values], name


@needs_browser
def test_every_kind_of_chart_is_drawn(tmp_path: Path) -> None:
    rows = pl.DataFrame(
        {
            "ts": [1_700_000_000_000_000_000 + n * 1000 for n in range(50)],
            "dur": [100 + n for n in range(50)],
            "name": [f"kernel {n % 7} {HOSTILE}" for n in range(50)],
            "lane": [f"stream {n % 3}" for n in range(50)],
            "address": [0x7F0000000000 + (n % 5) * 4096 for n in range(50)],
            "path": [f"main;step {n % 4};kernel {n % 7}" for n in range(50)],
        }
    )
    parts = [ChartPart(kind, kind, rows, roles) for kind, roles in CHARTS.items()]
    script = """
      const charts = () => [...document.querySelectorAll(".chart")];
      const painted = (canvas) => canvas.getContext("2d")
        .getImageData(0, 0, canvas.width, canvas.height).data.some((value) => value !== 0);
      const drawn = () => charts().map((chart) => [...chart.querySelectorAll("canvas")].some(painted));
      result.drawn = drawn();
      document.getElementById("theme").click();
      result.afterTheme = drawn();
      result.title = document.title;
    """
    result = in_browser(render_page([report(*parts)]), script, tmp_path)
    assert result["drawn"] == result["afterTheme"] == [True] * len(CHARTS)
    assert result["title"] == "tool"


def option_of(part: ChartPart, script: str, tmp_path: Path) -> dict[str, Any]:
    """Run `script` on the `option` that a chart gives ECharts, and return what it puts into `result`."""
    drawn = "const [part] = (await unpacked()).reports[0].parts; const option = CHARTS[part.kind](part);"
    return in_browser(render_page([report(part)]), drawn + script, tmp_path)


@needs_browser
def test_bytes_have_ticks_at_powers_of_two_and_bars_say_what_they_are(tmp_path: Path) -> None:
    rows = pl.DataFrame({"kind": ["a", "b"], "live_bytes": [7 << 20, 65 << 20]})
    part = ChartPart("bar", "Bars", rows, {"x": "kind", "y": "live_bytes"})
    script = """
      result.axis = [option.xAxis.min, option.xAxis.max, option.xAxis.interval];
      result.names = [option.xAxis.name, option.yAxis.name];
    """
    result = option_of(part, script, tmp_path)
    assert result["axis"] == [0, 80 << 20, 16 << 20]
    assert result["names"] == ["live", "kind"]


@needs_browser
def test_parallel_axes_of_bytes_have_ticks_at_powers_of_two(tmp_path: Path) -> None:
    rows = pl.DataFrame({"live_bytes": [17 << 20, 81 << 20], "calls": [3, 9]})
    part = ChartPart("parallel", "Lines", rows, {"columns": ["live_bytes", "calls"]})
    script = "result.ticks = option.parallelAxis.map(({ min, max, interval }) => [min ?? 0, max ?? 0, interval ?? 0]);"
    result = option_of(part, script, tmp_path)
    assert result["ticks"] == [[16 << 20, 88 << 20, 8 << 20], [0, 0, 0]]


@needs_browser
def test_a_heat_map_keeps_the_place_of_numbers_that_are_not_there(tmp_path: Path) -> None:
    rows = pl.DataFrame({"word": [0, 4], "address": [0x1000, 0x9000], "accesses": [3, 5]})
    part = ChartPart("heatmap", "Map", rows, {"x": "word", "y": "address", "value": "accesses"})
    script = """
      result.names = [option.xAxis.data, option.yAxis.data];
      result.places = option.series[0].data.map((cell) => cell.value.slice(0, 2));
      result.apart = [option.xAxis, option.yAxis].every(({ axisLabel }) => axisLabel.hideOverlap && axisLabel.lineHeight > 12);
    """
    result = option_of(part, script, tmp_path)
    assert result["apart"]
    assert result["names"] == [["0", "1", "2", "3", "4"], ["0x1000", "0x9000"]]
    assert result["places"] == [[0, 0], [4, 1]]


@needs_browser
def test_names_of_axes_say_since_when_and_have_room_below_a_short_legend(tmp_path: Path) -> None:
    rows = pl.DataFrame({"since_ns": [0, 5], "live_bytes": [1, 2], "what": ["a" * 60, "b"]})
    part = ChartPart("line", "Lines", rows, {"x": "since_ns", "y": "live_bytes", "series": "what"})
    script = """
      result.name = option.xAxis.name;
      result.legend = option.legend.formatter(option.series[0].name).length;
      result.room = option.grid.top;
    """
    result = option_of(part, script, tmp_path)
    assert result == {"name": "time since the first", "legend": 39, "room": 52, "problems": []}


@needs_browser
def test_a_single_bar_does_not_fill_its_chart(tmp_path: Path) -> None:
    rows = pl.DataFrame({"kind": ["a"], "live_bytes": [7]})
    part = ChartPart("bar", "Bar", rows, {"x": "kind", "y": "live_bytes"})
    result = option_of(part, "result.widest = option.series[0].barMaxWidth;", tmp_path)
    assert result["widest"] == 32


@needs_browser
def test_links_in_a_column_bow_around_what_lies_between(tmp_path: Path) -> None:
    """`a` is linked with its neighbour `b` and with `c`, which lies below `b`."""
    rows = pl.DataFrame({"name": ["a", "b", "c"], "host": ["h"] * 3, "links": [["b", "c"], ["a"], ["a"]]})  # fmt: skip
    roles = {"x": "name", "links": "links", "series": "host", "columns": ["host"]}
    script = "result.links = option.series[0].links.map((link) => [link.source, link.target, link.lineStyle.curveness < 0]);"
    result = option_of(ChartPart("network", "Graph", rows, roles), script, tmp_path)
    assert sorted(result["links"]) == [["a", "b", False], ["a", "c", True]]


@needs_browser
def test_source_lines_are_coloured_and_files_chosen(tmp_path: Path) -> None:
    rows = pl.DataFrame(
        {
            "file": ["b.py", "b.py", "a.py", "a.py"],
            "line": [2, 1, 1, 2],
            "text": [HOSTILE, "  indented", "first", "second"],
            "own_share": [0.5, None, 0.25, 0.0],
        }
    )
    roles = {"file": "file", "line": "line", "text": "text", "value": "own_share"}
    script = """
      const rows = () => [...document.querySelectorAll(".source tbody tr")].map((row) =>
        [...row.children].map((cell) => cell.textContent).concat(row.style.backgroundColor !== ""));
      result.first = rows();
      const choice = document.querySelector("select");
      choice.value = "a.py";
      choice.dispatchEvent(new Event("change"));
      result.second = rows();
      result.title = document.title;
    """
    page = render_page([report(ChartPart("source", "Lines", rows, roles))])
    result = in_browser(page, script, tmp_path)
    assert result["first"] == [["1", "", "  indented", False], ["2", "50.0 %", HOSTILE, True]]
    assert result["second"] == [["1", "25.0 %", "first", True], ["2", "", "second", False]]
    assert result["title"] == "tool"


@needs_browser
def test_parallel_lines_are_as_strong_as_what_they_stand_for(tmp_path: Path) -> None:
    """An axis of equal values goes; one of times that span much is logarithmic, one of shares is not."""
    rows = pl.DataFrame(
        {
            "idle_ns": [1, 50, 1_000],
            "near_share": [0.001, 0.5, 1.0],
            "clock": [1_700, 1_700, 1_700],
            "by_median": [0.9, 1.0, 1.1],
            "launches": [1, 10, 100],
        }
    )
    roles = {"columns": ["idle_ns", "near_share", "clock", "by_median"], "value": "launches"}
    script = """
      const option = parallelChart((await unpacked()).reports[0].parts[0]);
      result.axes = option.parallelAxis.map((axis) => [axis.dim, axis.name, axis.type]);
      result.first = option.series[0].data[0].value;
      result.widths = option.series[0].data.map((line) => line.lineStyle.width);
    """
    chart = ChartPart("parallel", "parallel", rows, roles, log=True)
    result = in_browser(render_page([report(chart)]), script, tmp_path)
    assert result["axes"] == [
        [0, "idle", "log"],
        [1, "near share", "value"],
        [2, "by median", "value"],
    ]
    assert result["first"] == [1, 0.001, 0.9]
    assert result["widths"] == sorted(set(result["widths"]))


@needs_browser
def test_ticks_of_bytes_stay_round_where_points_are_zoomed_in(tmp_path: Path) -> None:
    """Bars are zoomed across, so that their bytes are all there still."""
    rows = pl.DataFrame(
        {
            "name": [f"kernel {n}" for n in range(66)],
            "size_bytes": [n << 20 for n in range(66)],
            "dur": range(66),
        }
    )
    points = ChartPart("scatter", "Points", rows, {"x": "size_bytes", "y": "dur"})
    bars = ChartPart("bar", "Bars", rows, {"x": "name", "y": "size_bytes"}, 100)
    script = """
      const ticks = ({ chart }, from, to) => {
        chart.dispatchAction({ type: "dataZoom", dataZoomIndex: 0, startValue: from, endValue: to });
        return chart.getModel().getComponent("xAxis").axis.getViewLabels().map((tick) => tick.formattedLabel);
      };
      const [points, bars] = drawn;
      result.all = ticks(points, 0, 80 * 2 ** 20);
      result.within = ticks(points, 20_000_000, 40_000_000);
      result.close = ticks(points, 2 ** 24 + 100, 2 ** 24 + 40_000);
      result.bytes = ticks(points, 2 ** 24 + 0.5, 2 ** 24 + 2);
      result.lines = points.chart.getOption().xAxis[0].splitLine.customValues;
      result.bars = ticks(bars, 0, 5);
    """
    result = in_browser(render_page([report(points, bars)]), script, tmp_path)
    whole = ["0 B", "16.00 MiB", "32.00 MiB", "48.00 MiB", "64.00 MiB", "80.00 MiB"]
    assert result["all"] == result["bars"] == whole
    assert result["within"] == ["20.00 MiB", "24.00 MiB", "28.00 MiB", "32.00 MiB", "36.00 MiB"]
    assert result["close"] == ["16392.00 KiB", "16400.00 KiB", "16408.00 KiB", "16416.00 KiB"]
    assert result["bytes"] == ["16,777,217 B", "16,777,218 B"]
    assert result["lines"] == [16_777_217, 16_777_218]


@needs_browser
def test_a_click_sorts_and_words_filter(tmp_path: Path) -> None:
    rows = pl.DataFrame(
        {
            "name": ["b", "a", HOSTILE],
            "address": pl.Series([(1 << 63) - 1, 1 << 63, 5], dtype=pl.UInt64),
        }
    )
    script = """
      const cells = () => [...document.querySelectorAll(".tabulator-row")].map((row) => row.textContent);
      const pause = (time) => new Promise((done) => setTimeout(done, time));
      await pause(200);
      result.before = cells();
      document.querySelectorAll(".tabulator-col")[1].click();
      await pause(200);
      result.sorted = cells();
      const filter = document.querySelector("input[type=search]");
      filter.value = "onerror";
      filter.dispatchEvent(new Event("input"));
      await pause(200);
      result.filtered = cells();
      result.count = document.querySelector(".count").textContent;
      result.images = document.images.length;
    """
    result = in_browser(render_page([report(TablePart("t", "T", rows))]), script, tmp_path)
    assert [text[0] for text in result["before"]] == ["b", "a", "<"]
    assert [text[0] for text in result["sorted"]] == ["a", "b", "<"]
    assert [HOSTILE in text for text in result["filtered"]] == [True]
    assert result["count"] == "1 of 3 rows"
    assert result["images"] == 0


@needs_browser
def test_many_rows_are_shown(tmp_path: Path) -> None:
    count = 100_000
    rows = pl.DataFrame({"name": [f"kernel {n}" for n in range(count)], "dur": range(count)})
    page = render_page([report(TablePart("t", "T", rows))])
    assert len(page) < 5_000_000
    result = in_browser(
        page, "result.count = document.querySelector('.count').textContent;", tmp_path
    )
    assert result["count"] == "100,000 of 100,000 rows"


@needs_browser
def test_losses_of_several_tools_are_a_section_of_their_own(tmp_path: Path) -> None:
    other = report(losses=[LOSS])
    other.tool = "other"
    script = """
      const pause = (time) => new Promise((done) => setTimeout(done, time));
      await pause(200);
      result.link = document.querySelector("#contents a[href='#losses']").textContent;
      result.rows = [...document.querySelectorAll("#losses .tabulator-row")].map((row) => row.textContent);
    """
    result = in_browser(render_page([report(losses=[LOSS]), other]), script, tmp_path)
    assert result["link"] == "Losses in the input"
    assert len(result["rows"]) == 1
    assert all(text in result["rows"][0] for text in ("torch", "no free slot", "1,200", "all"))
