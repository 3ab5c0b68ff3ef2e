"use strict";
// Flame graphs: a box for each node, as wide as its weight, below the box of its caller.

const FLAME_ROW = 18;
const FLAME_DEEPEST = 400;
const FLAME_LEAST = 0.5;
const ALL_FRAMES = -1;

// Returns the nodes of a flame graph as columns, parents before children and siblings in their order.
function flameNodes(part) {
  const cellsOf = (role) => part.columns[part.roles[role]]?.cells;
  const weights = cellsOf("y").map((weight) => Number(weight ?? 0));
  if (!part.roles.node) return flameNodesOfTexts(cellsOf("x"), weights);
  const ids = cellsOf("node").map(Number);
  const above = cellsOf("parent").map(Number);
  const order = ids.map((_, row) => row).sort((left, right) => ids[left] - ids[right]);
  const places = new Map(order.map((row, place) => [ids[row], place]));
  return {
    rows: order,
    names: order.map((row) => cellsOf("x")[row] ?? ""),
    weights: order.map((row) => weights[row]),
    parents: order.map((row) => places.get(above[row]) ?? ALL_FRAMES),
  };
}

// Returns the nodes of paths whose frames are joined by semicolons.
function flameNodesOfTexts(texts, weights) {
  const root = { children: new Map() };
  texts.forEach((text, row) => {
    let node = root;
    for (const name of String(text ?? "").split(";").filter(Boolean)) {
      if (!node.children.has(name)) node.children.set(name, { name, weight: 0, children: new Map() });
      node = node.children.get(name);
      node.weight += weights[row];
    }
  });
  const nodes = { rows: null, names: [], weights: [], parents: [] };
  const waiting = [[root, ALL_FRAMES]];
  while (waiting.length) {
    const [node, place] = waiting.shift();
    for (const child of [...node.children.values()].sort((left, right) => (left.name < right.name ? -1 : 1))) {
      waiting.push([child, nodes.names.length]);
      nodes.names.push(child.name);
      nodes.weights.push(child.weight);
      nodes.parents.push(place);
    }
  }
  return nodes;
}

// Adds where each box begins and how deep it lies; siblings stand beside each other in order.
function flameLayout(nodes) {
  const count = nodes.names.length;
  const [starts, free, depths] = [new Float64Array(count), new Float64Array(count), new Int32Array(count)];
  let total = 0;
  for (let node = 0; node < count; node += 1) {
    const parent = nodes.parents[node];
    starts[node] = parent === ALL_FRAMES ? total : free[parent];
    free[node] = starts[node];
    depths[node] = parent === ALL_FRAMES ? 1 : depths[parent] + 1;
    if (parent === ALL_FRAMES) total += nodes.weights[node];
    else free[parent] += nodes.weights[node];
  }
  return { ...nodes, starts, depths, total };
}

function hashOf(name) {
  let hash = 0;
  for (let index = 0; index < name.length; index += 1) hash = (hash * 31 + name.charCodeAt(index)) | 0;
  return Math.abs(hash);
}

function mixed(from, to, share) {
  return `rgb(${from.map((value, index) => Math.round(value + (to[index] - value) * share)).join(",")})`;
}

const WARM = [[246, 196, 92], [240, 140, 86]];
const COLD = [[158, 200, 240], [98, 150, 222]];
const [MORE, LESS, SAME] = [[222, 84, 64], [74, 132, 216], [226, 226, 222]];

// Returns the colour of each node: by name; on or off the CPU; or by how much it changed.
function flameColours(part, tree) {
  const cells = (role) => part.columns[part.roles[role]]?.cells;
  const [cold, change] = [cells("cold"), cells("change")];
  return (node) => {
    const row = tree.rows?.[node];
    if (change) {
      const share = Math.max(-1, Math.min(1, change[row] ?? 0));
      return mixed(SAME, share > 0 ? MORE : LESS, Math.sqrt(Math.abs(share)));
    }
    const shade = (hashOf(tree.names[node]) % 97) / 96;
    const [warm, blue] = [WARM, COLD].map(([light, deep]) => light.map((value, index) => value + (deep[index] - value) * shade));
    return mixed(warm, blue, cold?.[row] ?? 0);
  };
}

function flameLegend(part) {
  if (part.roles.change) return "red: more than before, blue: less, grey: as before; width: both runs added up";
  const cold = part.columns[part.roles.cold]?.cells ?? [];
  return cold.some((share) => share !== null) ? "orange: on the CPU, blue: off the CPU" : null;
}

class FlameGraph {
  constructor(part, figure) {
    this.part = part;
    this.tree = flameLayout(flameNodes(part));
    this.colour = flameColours(part, this.tree);
    const unit = part.columns[part.roles.unit]?.cells[0];
    const column = part.columns[part.roles.y];
    this.column = { ...column, kind: "number", float: true, unit: { time: "time", bytes: "bytes" }[unit] ?? column.unit };
    this.root = ALL_FRAMES;
    this.selected = ALL_FRAMES;
    this.found = null;
    this.place = figure.querySelector(".chart");
    this.build(figure);
    this.zoomTo(ALL_FRAMES);
  }

  build(figure) {
    this.crumbs = element("div", { className: "crumbs", role: "navigation", ariaLabel: "Frames around the one shown" });
    this.search = element("input", { type: "search", placeholder: "find frames (regular expression)", ariaLabel: "find frames" });
    this.matched = element("output", { className: "count" });
    this.told = element("output", { className: "told", ariaLive: "polite" });
    const reset = element("button", { type: "button", textContent: "Reset", title: "show all, forget what was searched (Escape)" });
    const save = element("button", { type: "button", textContent: "Save picture" });
    this.canvas = element("canvas", { tabIndex: 0 });
    this.canvas.setAttribute("role", "application");
    this.canvas.setAttribute("aria-label", `flame graph: ${this.part.title}; arrow keys walk, Enter zooms, Escape shows all`);
    this.place.classList.add("flame");
    this.place.replaceChildren(this.canvas);
    figure.prepend(element("div", { className: "bar" }, this.search, this.matched, reset, save), this.crumbs);
    figure.append(this.told);
    const legend = flameLegend(this.part);
    if (legend) figure.append(element("figcaption", { textContent: legend }));
    this.hint = element("div", { className: "hint", hidden: true });
    this.place.append(this.hint);
    this.search.addEventListener("input", () => this.find(this.search.value));
    reset.addEventListener("click", () => this.reset());
    save.addEventListener("click", () => this.save());
    this.canvas.addEventListener("click", (event) => this.zoomTo(this.at(event)));
    this.canvas.addEventListener("mousemove", (event) => this.point(event));
    this.canvas.addEventListener("mouseleave", () => { this.hint.hidden = true; });
    this.canvas.addEventListener("keydown", (event) => this.key(event));
  }

  weightOf(node) { return node === ALL_FRAMES ? this.tree.total : this.tree.weights[node]; }
  nameOf(node) { return node === ALL_FRAMES ? "all" : this.tree.names[node]; }
  parentOf(node) { return node === ALL_FRAMES ? ALL_FRAMES : this.tree.parents[node]; }
  depthOf(node) { return node === ALL_FRAMES ? 0 : this.tree.depths[node]; }
  startOf(node) { return node === ALL_FRAMES ? 0 : this.tree.starts[node]; }

  wayTo(node) {
    const way = [node];
    while (way[0] !== ALL_FRAMES) way.unshift(this.parentOf(way[0]));
    return way;
  }

  sizes(node) {
    const share = (100 * this.weightOf(node)) / (this.tree.total || 1);
    return `${human(this.weightOf(node), this.column)}, ${share.toFixed(share < 1 ? 2 : 1)} % of all`;
  }

  zoomTo(node) {
    if (node === undefined) return;
    this.root = node;
    this.selected = node;
    this.hint.hidden = true;
    this.crumbs.replaceChildren(...this.wayTo(node).map((step) => {
      const crumb = element("button", { type: "button", textContent: shortened(this.nameOf(step), 40), title: this.nameOf(step) });
      crumb.addEventListener("click", () => this.zoomTo(step));
      return crumb;
    }));
    this.tell(node);
    this.repaint();
  }

  reset() {
    this.search.value = "";
    this.find("");
    this.zoomTo(ALL_FRAMES);
  }

  tell(node) { this.told.textContent = `${shortened(this.nameOf(node), 160)}: ${this.sizes(node)}`; }

  // Marks the frames whose name a pattern is found in; weight below several of them counts once.
  find(pattern) {
    this.found = null;
    this.matched.textContent = "";
    if (pattern) {
      let expression = null;
      try { expression = new RegExp(pattern, "i"); } catch { this.matched.textContent = "no regular expression"; }
      if (expression) this.mark(expression);
    }
    this.repaint();
  }

  mark(expression) {
    const known = new Map();
    const { names, parents, weights, total } = this.tree;
    this.found = new Uint8Array(names.length);
    const covered = new Uint8Array(names.length);
    let [frames, weight] = [0, 0];
    for (let node = 0; node < names.length; node += 1) {
      if (!known.has(names[node])) known.set(names[node], expression.test(names[node]));
      this.found[node] = known.get(names[node]) ? 1 : 0;
      const above = parents[node] !== ALL_FRAMES && covered[parents[node]];
      covered[node] = above || this.found[node] ? 1 : 0;
      frames += this.found[node];
      if (this.found[node] && !above) weight += weights[node];
    }
    this.matched.textContent = `${frames.toLocaleString("en-US")} frames, ${((100 * weight) / (total || 1)).toFixed(1)} % of all`;
  }

  // Gives the boxes that are wide enough to be seen, those around the root over the whole width.
  boxes() {
    const width = this.place.clientWidth;
    const [from, whole] = [this.startOf(this.root), this.weightOf(this.root) || 1];
    const boxes = this.wayTo(this.root).map((node) => ({ node, x: 0, width, depth: this.depthOf(node) }));
    const { names, starts, weights, depths, parents } = this.tree;
    const inside = new Uint8Array(names.length);
    for (let node = 0; node < names.length; node += 1) {
      const parent = parents[node];
      inside[node] = parent === this.root || (parent !== ALL_FRAMES && inside[parent]) ? 1 : 0;
      const size = (weights[node] / whole) * width;
      if (!inside[node] || size < FLAME_LEAST || depths[node] > FLAME_DEEPEST) continue;
      boxes.push({ node, x: ((starts[node] - from) / whole) * width, width: size, depth: depths[node] });
    }
    return boxes;
  }

  repaint() {
    this.shown = this.boxes();
    const rows = 1 + this.shown.reduce((most, box) => Math.max(most, box.depth), 0);
    const [width, height, ratio] = [this.place.clientWidth, rows * FLAME_ROW, devicePixelRatio || 1];
    Object.assign(this.canvas, { width: width * ratio, height: height * ratio });
    Object.assign(this.canvas.style, { width: `${width}px`, height: `${height}px` });
    const pen = this.canvas.getContext("2d");
    pen.scale(ratio, ratio);
    pen.font = "12px system-ui, sans-serif";
    pen.textBaseline = "middle";
    this.shown.forEach((box) => this.paint(pen, box));
  }

  paint(pen, { node, x, width, depth }) {
    const y = depth * FLAME_ROW;
    const box = [x, y, Math.max(FLAME_LEAST, width - 0.5), FLAME_ROW - 1];
    const around = node !== this.root && this.depthOf(node) <= this.depthOf(this.root);
    pen.globalAlpha = around ? 0.55 : 1;
    pen.fillStyle = node === ALL_FRAMES ? "#c9ccd0" : this.colour(node);
    if (this.found) {
      if (this.found[node]) pen.fillStyle = "#c94fd6";
      else pen.globalAlpha = 0.4;
    }
    pen.fillRect(...box);
    pen.globalAlpha = 1;
    if (node === this.selected) {
      pen.strokeStyle = getComputedStyle(this.place).color;
      pen.strokeRect(x + 0.5, y + 0.5, Math.max(1, width - 1.5), FLAME_ROW - 2);
    }
    if (width > 30) {
      pen.fillStyle = this.found && !this.found[node] && dark() ? "#e6e9ec" : "#1c1c1c";
      pen.fillText(fitting(this.nameOf(node), Math.floor((width - 8) / 6.4)), x + 4, y + FLAME_ROW / 2, width - 6);
    }
  }

  at(event) {
    const [x, depth] = [event.offsetX, Math.floor(event.offsetY / FLAME_ROW)];
    return this.shown.find((box) => box.depth === depth && x >= box.x && x < box.x + Math.max(1, box.width))?.node;
  }

  point(event) {
    const node = this.at(event);
    this.hint.hidden = node === undefined;
    if (node === undefined) return;
    const lines = [element("strong", { textContent: shortened(this.nameOf(node), 300) }), element("div", { textContent: this.sizes(node) })];
    const row = this.tree.rows?.[node];
    for (const role of ["before", "after", "cold", "change"]) {
      const column = this.part.columns[this.part.roles[role]];
      if (column && row !== undefined && column.cells[row] !== null) {
        const shown = role === "before" || role === "after" ? { ...column, unit: this.column.unit, float: true } : column;
        lines.push(element("div", { textContent: `${column.heading}: ${human(column.cells[row], shown)}` }));
      }
    }
    this.hint.replaceChildren(...lines);
    const right = this.place.clientWidth - this.hint.offsetWidth - 8;
    this.hint.style.left = `${Math.max(0, Math.min(event.offsetX + 12, right))}px`;
    this.hint.style.top = `${event.offsetY + 18}px`;
  }

  key(event) {
    const steps = {
      ArrowUp: () => this.parentOf(this.selected),
      ArrowDown: () => this.beside(this.selected, "below"),
      ArrowLeft: () => this.beside(this.selected, "left"),
      ArrowRight: () => this.beside(this.selected, "right"),
    };
    if (event.key === "Enter") this.zoomTo(this.selected);
    else if (event.key === "Escape") this.reset();
    else if (!steps[event.key]) return;
    else {
      this.selected = steps[event.key]() ?? this.selected;
      this.tell(this.selected);
      this.repaint();
    }
    event.preventDefault();
  }

  // Returns the box below, or the next box with the same caller, of those that are shown.
  beside(node, side) {
    if (side === "below") {
      const below = this.shown.filter((box) => box.node !== ALL_FRAMES && this.parentOf(box.node) === node);
      return below.reduce((widest, box) => (!widest || box.width > widest.width ? box : widest), null)?.node;
    }
    if (node === ALL_FRAMES) return undefined;
    const near = this.shown.filter((box) => box.node !== ALL_FRAMES && this.parentOf(box.node) === this.parentOf(node));
    return near[near.findIndex((box) => box.node === node) + (side === "left" ? -1 : 1)]?.node;
  }

  save() {
    const link = element("a", { href: this.canvas.toDataURL(), download: "flame.png" });
    link.click();
  }
}

function fitting(text, letters) {
  return text.length <= letters ? text : `${text.slice(0, Math.max(0, letters - 1))}…`;
}
