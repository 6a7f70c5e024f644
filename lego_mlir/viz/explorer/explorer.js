"use strict";
// The explorer. State is in the address (after #), drawings are SVG, numbers come from answers: of the local server,
// or of those inside an exported page. Nothing else is loaded and nothing is sent elsewhere.

const data = JSON.parse(document.getElementById("data").textContent);
const field = (id) => document.getElementById(id);
const SVG = "http://www.w3.org/2000/svg";
const FIELDS = ["layout", "access", "width", "dtype", "by"];
let shown = null; // the answer that is drawn
let newest = 0; // the number of the last question: later answers replace earlier ones only
let chosen = [0, 0]; // the cell that the keyboard has reached

function start() {
  for (const [name, text] of Object.entries(data.layouts)) option(field("named"), text, `${name} = ${text}`);
  option(field("named"), "", "none of them: edited below");
  for (const name of Object.keys(data.dtypes)) option(field("dtype"), name, name);
  field("dtype").value = "f32";
  field("layout").value = Object.values(data.layouts)[0] ?? "Row(32, 32)";
  field("access").value = data.access;
  if (data.answers) for (const id of ["layout", "access", "width", "dtype"]) field(id).disabled = true;
  if (data.answers) chooseAmongAnswers();
  restore();
  field("controls").addEventListener("submit", (event) => event.preventDefault());
  field("named").addEventListener("change", () => {
    if (!field("named").value) return;
    fill(data.answers ? data.answers[Number(field("named").value)].question : { layout: field("named").value });
    changed();
  });
  for (const id of FIELDS) field(id).addEventListener("input", changed);
  field("apply").addEventListener("click", () => { field("layout").value = field("apply").dataset.layout; changed(); });
  window.addEventListener("hashchange", () => { restore(); ask(); });
  ask();
}

// In an exported page the list offers every answer inside.
function chooseAmongAnswers() {
  field("named").replaceChildren();
  data.answers.forEach((answer, i) => option(field("named"), String(i), `${answer.question.layout}   access ${answer.question.access || "none"}`));
  if (data.answers.length) fill(data.answers[0].question);
}

function option(select, value, text) {
  const item = document.createElement("option");
  item.value = value;
  item.textContent = text;
  select.append(item);
}

function question() {
  return { layout: field("layout").value, access: field("access").value, width: Number(field("width").value), dtype: field("dtype").value };
}

function fill(values) {
  for (const id of FIELDS) if (id in values) field(id).value = values[id];
}

function restore() {
  const state = new URLSearchParams(location.hash.slice(1));
  fill(Object.fromEntries([...state].filter(([name]) => FIELDS.includes(name))));
}

let timer = 0;
function changed() {
  const state = new URLSearchParams(FIELDS.map((id) => [id, field(id).value]));
  if (parent === window) history.replaceState(null, "", `#${state}`);
  clearTimeout(timer);
  timer = setTimeout(ask, 120);
}

async function ask() {
  const number = ++newest;
  if (!data.answers) field("named").value = Object.values(data.layouts).includes(field("layout").value) ? field("layout").value : "";
  document.body.dataset.state = "waiting";
  const answer = data.answers ? stored() : await fetched(question());
  if (number !== newest) return;
  field("message").textContent = answer.error ?? answer.access?.error ?? "";
  document.body.classList.toggle("stale", Boolean(answer.error));
  if (answer.error) clear();
  if (!answer.error) {
    shown = answer;
    render();
    const index = answer.index ?? await fetched({ part: "index", layout: question().layout });
    if (number !== newest) return;
    field("expression").textContent = index.text ?? index.error;
    field("operations").textContent = index.text ? `${index.operations} operations, ${index.before} before simplification` : "";
  }
  document.body.dataset.state = "ready";
}

// After an error the last drawing stays, dimmed, and nothing is said about it.
function clear() {
  for (const id of ["cell", "expression", "operations", "counts"]) field(id).textContent = "";
  field("repair").hidden = true;
}

function stored() {
  const wanted = JSON.stringify(question());
  const found = data.answers.find((answer) => JSON.stringify(answer.question) === wanted);
  return found ?? { error: "this page holds answers for the listed layouts only; lego-mlir explore computes others" };
}

// In a notebook the page is in a frame, and the cell that shows it answers messages.
const waiting = new Map();
let messages = 0;
function messaged(wanted) {
  messages += 1;
  parent.postMessage({ number: messages, question: wanted }, "*");
  return new Promise((resolve) => waiting.set(messages, resolve));
}
window.addEventListener("message", (event) => {
  if (event.source !== parent || !waiting.has(event.data?.number)) return;
  waiting.get(event.data.number)(event.data.answer);
  waiting.delete(event.data.number);
});

async function fetched(wanted) {
  if (parent !== window) return messaged(wanted);
  try {
    const reply = await fetch("answer", { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(wanted) });
    return await reply.json();
  } catch {
    return { error: "no answer: lego-mlir explore has ended; start it again and reload its new address" };
  }
}

// A number of each drawn cell under the chosen view, and its colour.
function measured(position) {
  const byte = position * shown.bytes;
  if (field("by").value === "bank") return Math.floor(byte / data.bankBytes) % data.banks;
  if (field("by").value === "sector") return Math.floor(byte / data.sectorBytes);
  return position;
}

function between(anchors, fraction) {
  const place = Math.min(Math.max(fraction, 0), 1) * (anchors.length - 1);
  const low = Math.min(Math.floor(place), anchors.length - 2);
  const part = (anchor, i) => parseInt(anchor.slice(1 + 2 * i, 3 + 2 * i), 16);
  return [0, 1, 2].map((i) => Math.round(part(anchors[low], i) + (part(anchors[low + 1], i) - part(anchors[low], i)) * (place - low)));
}

function ink([red, green, blue]) {
  const linear = (c) => (c / 255 <= 0.04045 ? c / 255 / 12.92 : ((c / 255 + 0.055) / 1.055) ** 2.4);
  return 0.2126 * linear(red) + 0.7152 * linear(green) + 0.0722 * linear(blue) > 0.179 ? "#000000" : "#ffffff";
}

// The lanes at a cell, by "row,column".
function lanesByCell() {
  const found = new Map();
  const access = shown.access;
  if (!access || access.error) return found;
  access.lanes.forEach((lane, number) => {
    for (let step = 0; step < access.width; step++) {
      const key = `${lane.row},${lane.column + step}`;
      found.set(key, [...(found.get(key) ?? []), number]);
    }
  });
  return found;
}

function cells() {
  const lanes = lanesByCell();
  const values = shown.positions.map((row) => row.map(measured));
  const top = Math.max(1, values.reduce((most, row) => Math.max(most, ...row), 0));
  const waves = shown.access?.lanes ? Math.max(1, ...shown.access.lanes.map((lane) => lane.wavefront)) : 1;
  const byWave = field("by").value === "wavefront";
  return values.map((row, r) => row.map((value, c) => {
    const [tall, wide] = shown.block;
    const here = lanes.get(`${r * tall},${c * wide}`) ?? [];
    const colliding = here.some((lane) => shown.access.colliding.includes(lane));
    const wave = here.length ? Math.max(...here.map((lane) => shown.access.lanes[lane].wavefront)) : 0;
    const colour = byWave ? (here.length ? between(data.heat, wave / waves) : [255, 255, 255]) : between(data.blues, value / top);
    const label = byWave ? (here.length ? String(here[0]) + (here.length > 1 ? "+" : "") : "") : String(value);
    return { label, colour, framed: colliding, here, wave, position: shown.positions[r][c], index: indexOf(r * tall, c * wide) };
  }));
}

function indexOf(row, column) {
  const outer = [];
  for (const n of shown.dims.slice(0, -1).reverse()) { outer.unshift(row % n); row = Math.floor(row / n); }
  return [...outer, column];
}

function make(name, attributes, text) {
  const element = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
  if (text !== undefined) element.textContent = text;
  return element;
}

const HEIGHT = 20;
const MARGIN = 40;

function render() {
  const grid = cells();
  const width = Math.max(26, 8 + 7.4 * grid.reduce((most, row) => Math.max(most, ...row.map((cell) => cell.label.length)), 0));
  const [rows, columns] = [grid.length, grid[0].length];
  const svg = make("svg", { width: MARGIN + columns * width + 4, height: 22 + rows * HEIGHT + 4, role: "grid", tabindex: 0, "aria-label": `${shown.layout}, ${rows} by ${columns} cells; arrow keys move between cells` });
  for (let c = 0; c < columns; c++) svg.append(make("text", { x: MARGIN + (c + 0.5) * width, y: 16, "text-anchor": "middle", fill: "#555555" }, c * shown.block[1]));
  grid.forEach((row, r) => {
    const line = make("g", { role: "row" });
    line.append(make("text", { x: MARGIN - 6, y: 22 + (r + 0.5) * HEIGHT + 4, "text-anchor": "end", fill: "#555555" }, r * shown.block[0]));
    row.forEach((cell, c) => line.append(drawn(cell, r, c, width)));
    svg.append(line);
  });
  borders(svg, rows, columns, width);
  if (field("by").value === "order" && shown.block[0] === 1 && shown.block[1] === 1) svg.append(path(grid, width));
  field("drawing").replaceChildren(svg);
  svg.addEventListener("keydown", (event) => moved(event, grid));
  chosen = [Math.min(chosen[0], rows - 1), Math.min(chosen[1], columns - 1)];
  const [tall, wide] = shown.block;
  field("cell").textContent = tall * wide > 1 ? `each cell is the first element of a block of ${tall} x ${wide}` : "";
  results();
}

function drawn(cell, r, c, width) {
  const group = make("g", { role: "gridcell", id: `cell-${r}-${c}`, "aria-label": described(cell) });
  const inset = cell.framed ? 1.5 : 0;
  const [x, y] = [MARGIN + c * width, 22 + r * HEIGHT];
  group.append(make("rect", { x: x + inset, y: y + inset, width: width - 2 * inset, height: HEIGHT - 2 * inset, fill: `rgb(${cell.colour})`, stroke: cell.framed ? "#d55e00" : "#d0d0d0", "stroke-width": cell.framed ? 2.5 : 1 }));
  if (cell.label) group.append(make("text", { x: x + width / 2, y: y + HEIGHT / 2 + 4, "text-anchor": "middle", fill: ink(cell.colour), "pointer-events": "none" }, cell.label));
  group.addEventListener("pointerenter", () => select(r, c, cell));
  return group;
}

function borders(svg, rows, columns, width) {
  [...shown.borders, [rows, columns]].forEach(([tall, wide], level) => {
    const stroke = { stroke: "#222222", "stroke-width": 1.2 + 0.7 * level, "pointer-events": "none" };
    for (let r = 0; r <= rows; r += tall) svg.append(make("line", { x1: MARGIN, x2: MARGIN + columns * width, y1: 22 + r * HEIGHT, y2: 22 + r * HEIGHT, ...stroke }));
    for (let c = 0; c <= columns; c += wide) svg.append(make("line", { x1: MARGIN + c * width, x2: MARGIN + c * width, y1: 22, y2: 22 + rows * HEIGHT, ...stroke }));
  });
}

function path(grid, width) {
  const order = grid.flatMap((row, r) => row.map((cell, c) => [cell.position, MARGIN + (c + 0.5) * width, 22 + (r + 0.5) * HEIGHT]));
  order.sort((a, b) => a[0] - b[0]);
  return make("polyline", { points: order.map(([, x, y]) => `${x},${y}`).join(" "), fill: "none", stroke: "#c2185b", "stroke-width": 1.6, opacity: 0.55, "pointer-events": "none" });
}

function described(cell) {
  const byte = cell.position * shown.bytes;
  const lanes = cell.here.length ? `, lane ${cell.here.join(", ")}, wavefront ${cell.wave}` : "";
  return `[${cell.index.join(", ")}]: position ${cell.position}, byte ${byte}, bank ${Math.floor(byte / data.bankBytes) % data.banks}, sector ${Math.floor(byte / data.sectorBytes)}${lanes}`;
}

function select(r, c, cell) {
  chosen = [r, c];
  field("cell").textContent = described(cell);
}

function moved(event, grid) {
  const step = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] }[event.key];
  if (!step) return;
  event.preventDefault();
  const r = Math.min(Math.max(chosen[0] + step[0], 0), grid.length - 1);
  const c = Math.min(Math.max(chosen[1] + step[1], 0), grid[0].length - 1);
  select(r, c, grid[r][c]);
}

function wavefronts(count) {
  return `${count} wavefront${count === 1 ? "" : "s"}`;
}

function results() {
  const { access } = shown;
  const repair = access?.repair;
  field("counts").textContent = access?.lanes
    ? `${wavefronts(access.wavefronts)}, ${access.ideal} at best, ${access.ways}-way (${access.by}); ${access.sectors} sectors of ${data.sectorBytes} bytes, ${access.idealSectors} at best`
    : "no access: give the index of each lane of a warp, such as: lane, 0";
  field("repair").hidden = !repair || Boolean(data.answers);
  if (!repair) return;
  field("apply").textContent = `Use ${repair.layout}`;
  field("apply").dataset.layout = repair.layout;
  field("cost").textContent = `${wavefronts(repair.wavefronts)}, ${repair.ideal} at best, ${repair.extra_bytes} bytes more`;
}

start();
