"use strict";
// Numbers for people, as pasta/tools/units.py writes them in the terminal.

const SCALES = {
  time: [[3.6e12, "h"], [6e10, "min"], [1e9, "s"], [1e6, "ms"], [1e3, "us"]],
  bytes: [[2 ** 40, "TiB"], [2 ** 30, "GiB"], [2 ** 20, "MiB"], [2 ** 10, "KiB"]],
};
const SMALLEST = { time: "ns", bytes: "B" };
for (const rate of ["flop/s", "B/s"]) {
  SCALES[rate] = [[1e15, "P"], [1e12, "T"], [1e9, "G"], [1e6, "M"], [1e3, "k"]].map(([factor, prefix]) => [factor, prefix + rate]);
  SMALLEST[rate] = rate;
}

function scaled(value, unit, largest = Infinity) {
  for (const [factor, name] of SCALES[unit]) {
    if (Math.abs(value) >= factor && factor <= largest) return `${(value / factor).toFixed(2)} ${name}`;
  }
  return `${fixed(value, Number.isInteger(value) ? 0 : 1)} ${SMALLEST[unit]}`;
}

function fixed(value, digits) {
  return value.toLocaleString("en-US", { minimumFractionDigits: digits, maximumFractionDigits: digits });
}

function significant(value, isFloat, digits = 4) {
  if (!isFloat) return value.toLocaleString("en-US");
  if (Math.abs(value) >= 10000) return fixed(value, 0);
  const rounded = Number(value.toPrecision(digits));
  const small = rounded !== 0 && Math.abs(rounded) < 1e-4;
  return small ? rounded.toExponential().replace(/e-(\d)$/, "e-0$1") : rounded.toLocaleString("en-US", { maximumFractionDigits: 9 });
}

function percent(value) {
  return value !== 0 && Math.abs(value) < 0.05 ? `${significant(value, true, 2)} %` : `${value.toFixed(1)} %`;
}

// Returns a cell of a column as a person reads it; `kind` is number, whole (digits as text) or text.
function human(value, column) {
  if (value === null || value === undefined) return "-";
  if (column.kind === "text") return value;
  if (column.name === "device" && value === -1) return "host or unknown";
  const unit = column.unit;
  if (unit === "address") return `0x${BigInt(value).toString(16)}`;
  if (unit === "id") return String(value);
  if (column.kind === "whole") return BigInt(value).toLocaleString("en-US");
  if (unit === "%") return percent(100 * value);
  return unit in SCALES ? scaled(value, unit) : significant(value, column.float);
}

function compareWhole(left, right) {
  if (left === null || right === null) return Number(left !== null) - Number(right !== null);
  const difference = BigInt(left) - BigInt(right);
  return difference < 0n ? -1 : Number(difference > 0n);
}

// Returns the numbers of a column for an axis, and where it begins: times, and numbers too large to be exact,
// count from their smallest.
function axisNumbers(column) {
  const fromStart = column.kind === "whole" || column.name === "ts" || column.name.endsWith("_ts");
  if (!fromStart) return { numbers: column.cells, unit: column.unit, since: null };
  const whole = column.cells.map((cell) => (cell === null ? null : BigInt(cell)));
  const known = whole.filter((cell) => cell !== null);
  const first = known.reduce((least, cell) => (cell < least ? cell : least), known[0] ?? 0n);
  const numbers = whole.map((cell) => (cell === null ? null : Number(cell - first)));
  const unit = column.unit === "id" ? "time" : column.unit;
  return { numbers, unit, since: first };
}

function element(tag, properties = {}, ...children) {
  const made = Object.assign(document.createElement(tag), properties);
  made.append(...children.filter((child) => child !== null));
  return made;
}

function shortened(text, length = 48) {
  if (text.length <= length) return text;
  const half = Math.floor((length - 1) / 2);
  return `${text.slice(0, half)}…${text.slice(-half)}`;
}
