"use strict";
// Builds the page from the compressed payload.

const drawn = [];
const LOSSES = "Losses in the input";

function dark() {
  const chosen = document.documentElement.dataset.theme;
  return chosen ? chosen === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
}

function draw(place, option) {
  const begin = () => {
    const chart = echarts.init(place, dark() ? "dark" : null, { renderer: "canvas" });
    const shown = option(chart);
    chart.setOption(shown);
    followZoom(chart, shown);
    return chart;
  };
  const entry = { chart: begin(), resize: () => entry.chart.resize() };
  entry.repaint = () => {
    entry.chart.dispose();
    entry.chart = begin();
  };
  drawn.push(entry);
}

function drawFlame(part, figure) {
  const graph = new FlameGraph(part, figure);
  drawn.push({ repaint: () => graph.repaint(), resize: () => graph.repaint() });
}

function redraw() {
  document.documentElement.dataset.theme = dark() ? "dark" : "light";
  drawn.forEach((entry) => entry.repaint());
}

function list(items, className) {
  return items.length ? element("ul", { className }, ...items.map((text) => element("li", { textContent: text }))) : null;
}

function definitions(pairs, className) {
  const given = pairs.filter(([, text]) => text);
  if (!given.length) return null;
  const wrap = className === "facts";
  const rows = given.map(([name, text]) => [element("dt", { textContent: name }), element("dd", { textContent: text })]);
  return element("dl", { className }, ...(wrap ? rows.map((row) => element("div", {}, ...row)) : rows.flat()));
}

function addPart(part, section) {
  section.append(element("h3", { textContent: part.title }));
  if (part.rows === 0) {
    section.append(element("p", { className: "dim", textContent: "no rows" }));
  } else if (part.kind === "table") {
    drawTable(part, section);
  } else if (part.kind === "source") {
    drawSource(part, section);
  } else {
    const place = element("div", { className: "chart" });
    if (part.kind !== "flame") place.setAttribute("role", "img");
    place.setAttribute("aria-label", `${part.kind} chart: ${part.title}`);
    const caption = part.caption ? element("figcaption", { textContent: part.caption }) : null;
    const figure = element("figure", {}, place, caption);
    section.append(figure);
    if (part.kind === "flame") drawFlame(part, figure);
    else draw(place, (chart) => CHARTS[part.kind](part, chart));
  }
}

function addReport(report, main) {
  const section = element("section", { id: `tool-${report.tool}` });
  main.append(section);
  section.append(
    element("h2", { textContent: report.tool }),
    element("p", { className: "about", textContent: report.about }),
    ...[list(report.findings, "findings"), definitions(report.facts, "facts")].filter(Boolean),
  );
  report.parts.forEach((part) => addPart(part, section));
  if (report.losses.length) {
    section.append(element("h3", { textContent: LOSSES }));
    drawLosses(report.losses, section);
  }
  addMade(report, section);
}

function drawLosses(losses, section) {
  const names = ["collector", "what was lost or not trusted", "count", "tools"].slice(0, losses[0].length);
  const columns = names.map((heading, index) => (
    { name: heading, heading, unit: null, kind: "text", shown: true, cells: losses.map((loss) => loss[index]) }));
  drawTable({ title: LOSSES, columns, rows: losses.length, all_rows: losses.length }, section);
}

function addLosses(losses, main) {
  const section = element("section", { id: "losses" }, element("h2", { textContent: LOSSES }));
  main.append(section);
  document.getElementById("contents").append(element("a", { href: "#losses", textContent: LOSSES }));
  drawLosses(losses, section);
}

function addMade(report, section) {
  const details = element("details", {}, element("summary", { textContent: "How it was made" }));
  const facts = definitions(Object.entries(report.made), "made");
  details.append(...[facts, list(report.notes, "dim")].filter(Boolean));
  section.append(details);
  if (!report.graph) return;
  const place = element("div", { className: "chart" });
  place.setAttribute("role", "img");
  place.setAttribute("aria-label", `The graph of ${report.tool}: ${report.graph.nodes.map((node) => node.name).join(", ")}`);
  details.append(place);
  details.addEventListener("toggle", () => {
    if (details.open && !place.firstChild) draw(place, () => stageGraph(report.graph));
  });
}

function addOverview({ reports, made, strongest }, main) {
  if (reports.length > 1) {
    const nav = document.getElementById("contents");
    reports.forEach((report) => nav.append(element("a", { href: `#tool-${report.tool}`, textContent: report.tool })));
    main.append(...[list(strongest, "findings")].filter(Boolean));
  }
  main.append(...[definitions(Object.entries(made), "made")].filter(Boolean));
}

async function unpacked() {
  const packed = document.getElementById("payload").textContent;
  const bytes = Uint8Array.from(atob(packed), (letter) => letter.codePointAt(0));
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
  return JSON.parse(await new Response(stream).text());
}

async function build() {
  document.documentElement.dataset.theme = dark() ? "dark" : "light";
  const data = await unpacked();
  const main = document.getElementById("main");
  main.querySelector("noscript")?.remove();
  addOverview(data, main);
  data.reports.forEach((report) => addReport(report, main));
  if (data.losses.length) addLosses(data.losses, main);
  document.getElementById("theme").addEventListener("click", () => {
    document.documentElement.dataset.theme = dark() ? "light" : "dark";
    redraw();
  });
  addEventListener("resize", () => drawn.forEach((entry) => entry.resize()));
  document.body.dataset.ready = "yes";
}

build();
