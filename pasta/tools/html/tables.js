"use strict";
// Tables that sort by a click on a heading and filter by words.

const LOW_TABLE_ROWS = 15;

function cellElement(column) {
  return (cell) => {
    const text = human(cell.getValue(), column);
    return element("span", { textContent: text, title: text });
  };
}

function tableColumn(column, index) {
  const number = column.kind !== "text";
  const sorters = { number: "number", whole: compareWhole, text: "string" };
  return {
    title: "",
    titleFormatter: () => element("span", { textContent: column.heading }),
    field: String(index),
    formatter: cellElement(column),
    sorter: sorters[column.kind],
    headerSortStartingDir: number ? "desc" : "asc",
    hozAlign: number ? "right" : "left",
    headerHozAlign: number ? "right" : "left",
    visible: column.shown,
    minWidth: 70,
    maxInitialWidth: 520,
  };
}

function drawTable(part, section) {
  const columns = part.columns;
  const rows = Array.from({ length: part.rows }, (_, row) =>
    Object.fromEntries(columns.map((column, index) => [index, column.cells[row]])));
  const filter = element("input", { type: "search", placeholder: "Filter by words" });
  filter.setAttribute("aria-label", `Filter ${part.title}`);
  const count = element("span", { className: "count" });
  const hidden = columns.some((column) => !column.shown);
  const more = hidden ? element("button", { type: "button", textContent: "All columns" }) : null;
  const place = element("div", { className: "table" });
  section.append(element("div", { className: "bar" }, filter, more, count), place);
  const options = {
    data: rows,
    columns: columns.map(tableColumn),
    layout: "fitDataStretch",
    placeholder: "no rows",
    columnDefaults: { resizable: "header" },
  };
  if (part.rows > LOW_TABLE_ROWS) options.height = 440;
  const table = new Tabulator(place, options);
  const counted = (shown) => {
    const whole = part.all_rows > part.rows ? ` of the first ${part.rows.toLocaleString("en-US")}` : "";
    count.textContent = `${shown.toLocaleString("en-US")}${whole} of ${part.all_rows.toLocaleString("en-US")} rows`;
  };
  counted(part.rows);
  table.on("tableBuilt", () => {
    place.querySelectorAll(".tabulator-col").forEach((heading) => {
      heading.tabIndex = 0;
      heading.addEventListener("keydown", (event) => {
        if (event.key === "Enter") heading.click();
      });
    });
  });
  table.on("dataFiltered", (_, shown) => counted(shown.length));
  filter.addEventListener("input", () => {
    const words = filter.value.toLowerCase().split(/\s+/).filter(Boolean);
    const fits = (row) => {
      const text = columns.map((column, index) => human(row[index], column)).join("\n").toLowerCase();
      return words.every((word) => text.includes(word));
    };
    if (words.length) table.setFilter(fits);
    else table.clearFilter();
  });
  more?.addEventListener("click", () => {
    columns.forEach((_, index) => table.showColumn(String(index)));
    more.remove();
  });
}
