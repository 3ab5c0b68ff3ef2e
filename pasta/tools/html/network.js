"use strict";
// Devices and what joins them: a column of nodes for each group; a click shows what is known of one.

const LANE = 70;

function networkChart(part) {
  const names = part.columns[part.roles.x].cells.map(String);
  const known = new Set(names);
  const column = part.columns[part.roles.series];
  const groups = column ? categoriesOf(column) : { names: [""], places: names.map(() => 0) };
  const filled = groups.names.map(() => 0);
  const data = names.map((name, row) => {
    const group = groups.places[row];
    const lane = filled[group]++;
    return { id: name, name, row, category: group, x: group * 220, y: lane * LANE + (group % 2) * 25, symbolSize: 26 };
  });
  const place = new Map(data.map((node) => [node.id, node]));
  // In a column, what joins others than neighbours bows out to the left of those between them.
  const bow = (upper, lower) => (upper.category === lower.category && lower.y - upper.y > LANE ? -0.3 : 0);
  const joined = new Set();
  const links = part.columns[part.roles.links].cells.flatMap((others, row) =>
    String(others ?? "").split(", ").filter((other) => known.has(other)).map((other) => [names[row], other].sort()))
    .filter((ends) => !joined.has(ends.join(" ")) && joined.add(ends.join(" ")))
    .map((ends) => ends.sort((left, right) => place.get(left).y - place.get(right).y))
    .map(([source, target]) => ({ source, target, lineStyle: { curveness: bow(place.get(source), place.get(target)) } }));
  return {
    ...common(part, groups.names),
    tooltip: { confine: true, triggerOn: "click", formatter: (item) => (item.dataType === "node" ? tooltipOf(part, item.data.row) : "") },
    series: [{
      type: "graph", layout: "none", roam: true, data, links,
      categories: groups.names.map((name) => ({ name })),
      label: { show: true, position: "right", fontSize: 12 },
      lineStyle: { width: 2, opacity: 0.7 },
    }],
  };
}
