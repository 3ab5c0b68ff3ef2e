"use strict";
// Devices and what joins them: a column of nodes for each group; a click shows what is known of one.

function networkChart(part) {
  const names = part.columns[part.roles.x].cells.map(String);
  const known = new Set(names);
  const column = part.columns[part.roles.series];
  const groups = column ? categoriesOf(column) : { names: [""], places: names.map(() => 0) };
  const filled = groups.names.map(() => 0);
  const data = names.map((name, row) => {
    const group = groups.places[row];
    const lane = filled[group]++;
    return { id: name, name, row, category: group, x: group * 220, y: lane * 70 + (group % 2) * 25, symbolSize: 26 };
  });
  const joined = new Set();
  const links = part.columns[part.roles.links].cells.flatMap((others, row) =>
    String(others ?? "").split(", ").filter((other) => known.has(other)).map((other) => [names[row], other].sort()))
    .filter((ends) => !joined.has(ends.join(" ")) && joined.add(ends.join(" ")))
    .map(([source, target]) => ({ source, target }));
  return {
    ...common(part, groups.names),
    tooltip: { confine: true, triggerOn: "click", formatter: (item) => (item.dataType === "node" ? tooltipOf(part, item.data.row) : "") },
    series: [{
      type: "graph", layout: "none", roam: true, data, links,
      categories: groups.names.map((name) => ({ name })),
      label: { show: true, position: "bottom", fontSize: 12 },
      lineStyle: { width: 2, opacity: 0.7 },
    }],
  };
}
