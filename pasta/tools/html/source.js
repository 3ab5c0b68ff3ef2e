"use strict";
// Source files, one at a time, each line coloured by its share of the hottest line of all files.

const HOTTEST_ALPHA = 0.75;

// Returns the rows of each file, in order of lines, and the value of the hottest line of all.
function sourceFiles(part) {
  const cellsOf = (role) => part.columns[part.roles[role]].cells;
  const [names, lines, texts, values] = ["file", "line", "text", "value"].map(cellsOf);
  const files = new Map();
  names.forEach((name, row) => {
    if (!files.has(name)) files.set(name, []);
    files.get(name).push({ line: lines[row], text: texts[row] ?? "", value: Number(values[row] ?? 0), shown: values[row] });
  });
  files.forEach((rows) => rows.sort((left, right) => left.line - right.line));
  const most = values.reduce((highest, value) => Math.max(highest, Number(value ?? 0)), 0);
  return { files, most };
}

function sourceLines(rows, most, column) {
  return rows.map(({ line, text, value, shown }) => {
    const heat = most > 0 ? value / most : 0;
    const cells = [
      element("td", { className: "number", textContent: line }),
      element("td", { className: "number", textContent: value ? human(shown, column) : "" }),
      element("td", { className: "code", textContent: text }),
    ];
    const row = element("tr", {}, ...cells);
    if (heat > 0) row.style.backgroundColor = `rgba(214, 92, 24, ${Math.max(0.04, HOTTEST_ALPHA * Math.sqrt(heat)).toFixed(3)})`;
    return row;
  });
}

function drawSource(part, section) {
  const { files, most } = sourceFiles(part);
  const value = part.columns[part.roles.value];
  const choice = element("select", {}, ...[...files.keys()].map((name) => element("option", { value: name, textContent: name })));
  choice.setAttribute("aria-label", `File of ${part.title}`);
  const body = element("tbody");
  const head = element("tr", {}, ...["line", value.heading, ""].map((textContent) => element("th", { scope: "col", textContent })));
  const listing = element("div", { className: "source", tabIndex: 0 }, element("table", {}, element("thead", {}, head), body));
  const show = () => {
    const rows = files.get(choice.value);
    body.replaceChildren(...sourceLines(rows, most, value));
    const hottest = rows.reduce((best, row, place) => (row.value > rows[best].value ? place : best), 0);
    listing.scrollTop = Math.max(0, body.children[hottest].offsetTop - listing.clientHeight / 3);
  };
  choice.addEventListener("change", show);
  const more = part.all_rows > part.rows
    ? element("p", { className: "dim", textContent: `${part.rows.toLocaleString("en-US")} of ${part.all_rows.toLocaleString("en-US")} lines` })
    : null;
  section.append(element("div", { className: "bar" }, choice), listing, ...(more ? [more] : []));
  show();
}
