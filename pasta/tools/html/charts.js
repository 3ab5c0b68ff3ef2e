"use strict";
// Charts of the kinds in pasta/pipeline/charts.py, drawn by ECharts; flame.js draws flame graphs.

const MOST_BARS = 40;
const WIDEST_BAR = 32;
// What stands above an axis at the left begins there: in its middle, a long name would be cut off.
const FROM_THE_AXIS = { align: "left" };
// ECharts takes lines to be as high as a Chinese sign is wide, which fonts without such signs make too little.
const APART = { hideOverlap: true, showMinLabel: true, lineHeight: 13 };

function axisOf(part, role, extra = {}) {
  const column = part.columns[part.roles[role]];
  const { numbers, unit, since } = axisNumbers(column);
  const name = since === null ? nameOf(column) : `${column.name === "ts" ? "time" : column.heading} since the first`;
  const label = { formatter: (value) => human(value, { kind: "number", unit }) };
  const axis = { type: "value", name, nameLocation: "middle", nameGap: 34, axisLabel: label, scale: true, ...extra };
  return { column, numbers, unit, axis: unit === "bytes" && axis.type === "value" ? { ...axis, ...bytesScale(numbers, axis.scale) } : axis };
}

// Returns what a column is called along an axis: "since" alone would not say since when.
function nameOf(column) {
  return column.name === "since_ns" ? "time since the first" : column.heading;
}

const MOST_TICKS = 8;

// Returns the power of two between ticks of bytes: 16 MiB, 32 MiB, where others would be 9.54 MiB, 19.07 MiB.
function bytesInterval(low, high) {
  return Math.max(1, 2 ** Math.ceil(Math.log2((high - low) / MOST_TICKS)));
}

// Two decimals of a unit do not tell ticks apart that are closer than a quarter of it.
function bytesLabel(interval) {
  return (value) => scaled(value, "bytes", 4 * interval);
}

function bytesScale(numbers, fromLeast) {
  const known = numbers.filter((number) => number !== null);
  const [low, high] = known.reduce(([least, most], number) => [Math.min(least, number), Math.max(most, number)], fromLeast ? [Infinity, -Infinity] : [0, 0]);
  if (!(high > low)) return {};
  const interval = bytesInterval(low, high);
  const axisLabel = { formatter: bytesLabel(interval) };
  return { interval, min: Math.floor(low / interval) * interval, max: Math.ceil(high / interval) * interval, axisLabel };
}

// Returns an axis of bytes of which a part is shown: an interval alone would count from where that part begins.
function bytesShown(low, high) {
  const interval = bytesInterval(low, high);
  const first = Math.ceil(low / interval);
  const customValues = Array.from({ length: Math.floor(high / interval) - first + 1 }, (_, place) => (first + place) * interval);
  return { axisLabel: { customValues, formatter: bytesLabel(interval) }, axisTick: { customValues }, splitLine: { customValues } };
}

// Makes the ticks of an axis of bytes follow what is shown of it: of all axes, it alone has ticks of its own.
function followZoom(chart, option) {
  if (!option.xAxis?.interval || option.dataZoom[0]?.xAxisIndex === undefined) return;
  chart.on("datazoom", () => {
    const [{ startValue, endValue }] = chart.getOption().dataZoom;
    if (endValue > startValue) chart.setOption({ xAxis: bytesShown(startValue, endValue) });
  });
}

function categoriesOf(column) {
  const texts = column.cells.map((cell) => human(cell, column));
  const names = [...new Set(texts)];
  const places = new Map(names.map((name, place) => [name, place]));
  return { names, places: texts.map((text) => places.get(text)) };
}

function tooltipOf(part, row) {
  const lines = Object.values(part.columns).map((column) =>
    element("div", {}, element("span", { className: "dim", textContent: `${column.heading}: ` }),
      shortened(human(column.cells[row], column), 120)));
  return element("div", {}, ...lines);
}

// Returns the rows of each series: all of them where no column tells series apart.
function seriesOf(part) {
  const rows = Array.from({ length: part.rows }, (_, row) => row);
  const column = part.columns[part.roles.series];
  if (!column) return [{ name: "", rows }];
  const { names, places } = categoriesOf(column);
  return names.map((name, place) => ({ name, rows: rows.filter((row) => places[row] === place) }));
}

function common(part, series) {
  const several = series.length > 1;
  return {
    backgroundColor: "transparent",
    animation: false,
    aria: { enabled: true, label: { description: part.title } },
    grid: { left: 16, right: 40, top: several ? 52 : 30, bottom: 56, containLabel: true },
    tooltip: { confine: true, formatter: (item) => (item.value?.row === undefined && item.data?.row === undefined ? "" : tooltipOf(part, item.data.row)) },
    legend: several ? { type: "scroll", top: 0, formatter: (name) => shortened(name, 40) } : undefined,
    toolbox: { right: 8, feature: { saveAsImage: { title: "save" } } },
    series,
  };
}

function zoom(...axes) {
  return axes.map((axis) => ({ type: "inside", [axis]: 0, filterMode: "none" }));
}

// Returns the axis that names bars or lanes, from the top on, below what they are.
function lanesOf(part, role, names) {
  const name = part.columns[part.roles[role]].heading;
  const axisLabel = { ...APART, formatter: (label) => shortened(label, 40) };
  return { type: "category", data: names, inverse: true, name, nameLocation: "start", nameGap: 10, nameTextStyle: FROM_THE_AXIS, axisLabel };
}

function barChart(part) {
  const y = axisOf(part, "y", { scale: false });
  const x = categoriesOf(part.columns[part.roles.x]);
  const series = seriesOf(part).map(({ name, rows }) => ({
    type: "bar", name, barMaxWidth: WIDEST_BAR, data: rows.map((row) => ({ value: [y.numbers[row], x.places[row]], row })),
  }));
  const dataZoom = x.names.length > MOST_BARS ? zoom("yAxisIndex") : [];
  return { ...common(part, series), xAxis: y.axis, yAxis: lanesOf(part, "x", x.names), dataZoom };
}

function pointChart(part, kind) {
  const type = part.log ? { type: "log", scale: undefined } : {};
  const [x, y] = [axisOf(part, "x", type), axisOf(part, "y", kind === "line" ? { scale: false } : type)];
  const usable = (row) => x.numbers[row] !== null && y.numbers[row] !== null
    && (!part.log || (x.numbers[row] > 0 && y.numbers[row] > 0));
  const paths = part.columns[part.roles.path]?.cells ?? [];
  const series = seriesOf(part).map(({ name, rows }) => {
    const shown = rows.filter((row) => usable(row) && (paths[row] ?? null) === null);
    if (kind === "line") shown.sort((left, right) => x.numbers[left] - x.numbers[right]);
    const data = shown.map((row) => ({ value: [x.numbers[row], y.numbers[row]], row }));
    const line = { step: "end", showSymbol: shown.length < 200, sampling: "lttb", areaStyle: { opacity: 0.12 } };
    return { type: kind, name, data, symbolSize: 7, ...(kind === "line" ? line : { large: shown.length > 5000 }) };
  });
  for (const name of new Set(paths)) {
    if (name === null) continue;
    const data = paths.flatMap((path, row) => (path === name && usable(row) ? [{ value: [x.numbers[row], y.numbers[row]], row }] : []));
    data.sort((left, right) => left.value[0] - right.value[0]);
    series.push({ type: "line", name, data, showSymbol: false, lineStyle: { type: "dashed", width: 1.5 } });
  }
  return { ...common(part, series.filter(({ data }) => data.length)), xAxis: x.axis, yAxis: { ...y.axis, nameLocation: "end", nameGap: 10, nameTextStyle: FROM_THE_AXIS }, dataZoom: zoom("xAxisIndex") };
}

const MOST_GAPS = 512;

// Returns the numbers of a column in order, those between them too where they count something: what is not there stays empty.
function orderedCategories(column) {
  const numbers = column.cells.filter((cell) => typeof cell === "number");
  const [low, high] = numbers.reduce(([least, most], number) => [Math.min(least, number), Math.max(most, number)], [Infinity, -Infinity]);
  if (numbers.length === column.cells.length && numbers.every(Number.isInteger) && column.unit === null && high - low < MOST_GAPS) {
    const names = Array.from({ length: high - low + 1 }, (_, place) => human(low + place, column));
    return { names, places: numbers.map((number) => number - low) };
  }
  const { names, places } = categoriesOf(column);
  const first = new Map();
  column.cells.forEach((cell, row) => { if (!first.has(places[row])) first.set(places[row], cell); });
  const order = names.map((_, place) => place).sort((left, right) =>
    (column.kind === "whole" ? compareWhole(first.get(left), first.get(right)) : first.get(left) - first.get(right)));
  const rank = new Map(order.map((place, index) => [place, index]));
  return { names: order.map((place) => names[place]), places: places.map((place) => rank.get(place)) };
}

function heatmapChart(part) {
  const [xs, ys] = ["x", "y"].map((role) => orderedCategories(part.columns[part.roles[role]]));
  const value = part.columns[part.roles.value];
  const sums = new Map();
  value.cells.forEach((cell, row) => {
    if (cell === null || Number(cell) <= 0) return;
    const key = `${xs.places[row]} ${ys.places[row]}`;
    const known = sums.get(key) ?? { sum: 0, row };
    sums.set(key, { sum: known.sum + Number(cell), row: known.row });
  });
  const data = [...sums].map(([key, { sum, row }]) => ({ value: [...key.split(" ").map(Number), Math.log10(sum)], row }));
  const logs = data.map((cell) => cell.value[2]);
  const [low, high] = logs.reduce(([a, b], log) => [Math.min(a, log), Math.max(b, log)], [Infinity, -Infinity]);
  const axis = (role, names) => ({ type: "category", data: names, name: nameOf(part.columns[part.roles[role]]), axisLabel: APART });
  return {
    ...common(part, [{ type: "heatmap", data, progressive: 5000 }]),
    grid: { left: 16, right: 110, top: 36, bottom: 48, containLabel: true },
    xAxis: { ...axis("x", xs.names), nameLocation: "middle", nameGap: 30 },
    yAxis: { ...axis("y", ys.names), nameTextStyle: FROM_THE_AXIS },
    visualMap: {
      min: low, max: high === low ? low + 1 : high, calculable: true, right: 0, top: "middle", precision: 2,
      inRange: { color: ["#e4eef9", "#7fb2e5", "#f2b134", "#c8321f"] },
      formatter: (log) => human(Math.round(10 ** log), value),
    },
    dataZoom: zoom("xAxisIndex", "yAxisIndex"),
  };
}

// What threads do has the colours that flame graphs have: warm on the CPU, cold off it.
const ACTIVITY_COLOURS = { "on the CPU": "#e07b39", "off the CPU": "#6fa3d8", unknown: "#a8aeb5" };

function intervalChart(part) {
  const x = axisOf(part, "x");
  const length = part.columns[part.roles.value].cells.map((cell) => (cell === null ? 0 : Number(cell)));
  const lanes = categoriesOf(part.columns[part.roles.y]);
  const series = seriesOf(part).map(({ name, rows }) => ({
    type: "custom",
    name,
    itemStyle: { color: ACTIVITY_COLOURS[name] },
    encode: { x: [0, 1], y: 2 },
    data: rows.map((row) => ({ value: [x.numbers[row], x.numbers[row] + length[row], lanes.places[row]], row })),
    renderItem: (_, api) => {
      const [from, lane] = api.coord([api.value(0), api.value(2)]);
      const [to] = api.coord([api.value(1), api.value(2)]);
      const height = Math.min(28, api.size([0, 1])[1] * 0.7);
      const shape = { x: from, y: lane - height / 2, width: Math.max(1, to - from), height };
      return { type: "rect", shape, style: api.style() };
    },
  }));
  return {
    ...common(part, series),
    xAxis: x.axis,
    yAxis: lanesOf(part, "y", lanes.names),
    dataZoom: [...zoom("xAxisIndex"), { type: "slider", xAxisIndex: 0, height: 18, bottom: 4, showDetail: false }],
  };
}

const LEAST_LOGARITHMIC = 20;

// Returns the axes on which rows differ, logarithmic where asked for and values span much.
function parallelAxes(part) {
  const axes = part.roles.columns.map((name) => ({ column: part.columns[name], ...axisNumbers(part.columns[name]) }));
  for (const axis of axes) {
    const known = axis.numbers.filter((number) => number !== null);
    [axis.low, axis.high] = known.reduce(([low, high], number) => [Math.min(low, number), Math.max(high, number)], [Infinity, -Infinity]);
  }
  const typeOf = ({ unit, low, high }) => (part.log && unit !== "%" && low > 0 && high / low >= LEAST_LOGARITHMIC ? "log" : "value");
  return axes.filter(({ low, high }) => low < high).map((axis, dim) => ({
    ...axis,
    shown: {
      dim, scale: true, name: shortened(axis.column.heading, 24), type: typeOf(axis),
      ...(axis.unit === "bytes" && typeOf(axis) === "value" ? bytesScale(axis.numbers, true) : {}),
      axisLabel: { formatter: (value) => human(value, { kind: "number", unit: axis.unit }) },
    },
  }));
}

function parallelChart(part) {
  const axes = parallelAxes(part);
  const weights = part.columns[part.roles.value]?.cells.map(Number);
  const heaviest = weights?.reduce((most, weight) => Math.max(most, weight), 1);
  const strength = (row) => Math.log1p(weights[row]) / Math.log1p(heaviest);
  const styled = (row) => (weights ? { lineStyle: { width: 0.6 + 3 * strength(row), opacity: 0.15 + 0.6 * strength(row) } } : {});
  const series = seriesOf(part).map(({ name, rows }) => ({
    type: "parallel", name, lineStyle: { width: 1.2, opacity: rows.length > 500 ? 0.15 : 0.6 },
    data: rows.map((row) => ({ value: axes.map((axis) => axis.numbers[row]), row, ...styled(row) })),
  }));
  const parallelAxis = axes.map((axis) => axis.shown);
  return { ...common(part, series), parallelAxis, parallel: { left: 60, right: 80, top: 70, bottom: 30 } };
}

const CHARTS = {
  bar: barChart,
  line: (part) => pointChart(part, "line"),
  scatter: (part) => pointChart(part, "scatter"),
  heatmap: heatmapChart,
  interval: intervalChart,
  parallel: parallelChart,
  network: networkChart,
};

// The graph of a tool: inputs on the left, each stage to the right of what feeds it.
function stageGraph(graph) {
  const lanes = new Map();
  const data = graph.nodes.map((node) => {
    const lane = lanes.get(node.depth) ?? 0;
    lanes.set(node.depth, lane + 1);
    return {
      id: node.name, name: node.name, x: node.depth * 160, y: lane * 60 + (node.depth % 2) * 24,
      symbol: node.kind === "input" ? "roundRect" : node.kind === "array" ? "diamond" : "circle", symbolSize: 18,
      category: ["input", "row-wise", "mergeable", "whole", "array"].indexOf(node.kind),
      what: `${node.what} [${node.kind}]`,
    };
  });
  return {
    backgroundColor: "transparent",
    animation: false,
    tooltip: { formatter: (item) => (item.dataType === "node" ? element("div", { textContent: `${item.data.name}: ${item.data.what}` }) : "") },
    series: [{
      type: "graph", layout: "none", roam: true, data,
      categories: ["input", "row-wise", "mergeable", "whole", "array"].map((name) => ({ name })),
      links: graph.edges.map(([source, target]) => ({ source, target })),
      edgeSymbol: ["none", "arrow"], edgeSymbolSize: 7, label: { show: true, position: "bottom", fontSize: 11 },
    }],
  };
}
