// The memory map: one row per block. The block's ranges are drawn to scale on a canvas when the row comes into view.
//
// A row is { index, block, hits, element, bar, canvas, cursor, at, seen, stale }: `hits` has a 1 for each range that
// the search found, or is null without a search; `at` is the index of the range that the arrow keys have selected.

const TALL = 60; // A map with more rows than this scrolls in its own box.
const CLASSES = { buffers: "blue", textures: "orange", "render targets": "green", all: "purple" };

// `reached` is the row that the tab key focuses.
const map = { rows: [], reached: null, found: [], foundAt: -1, ink: null, onChange: () => {} };

// Returns the class of a block's resources in words, as in `sections/map.rs`.
const className = (name) => (name === "all" ? "any kind" : name);
const classColour = (name) => CLASSES[name] ?? "sky";
const rangeName = (range) => range.name || "(no name)";
const usedBytes = (block) => block.ranges.reduce((sum, range) => sum + range.bytes, 0);

const inOrder = (one, other) =>
  one.block.dedicated - other.block.dedicated || one.block.number - other.block.number;

function buildMap() {
  const { types, blocks } = report.snapshot;
  const groups = new Map();
  blocks.forEach((block, index) => {
    if (!groups.has(block.memory_type)) groups.set(block.memory_type, []);
    groups.get(block.memory_type).push(makeRow(block, index));
  });
  for (const number of [...groups.keys()].sort((one, other) => one - other)) {
    const rows = groups.get(number).sort(inOrder);
    byId("map").append(makeGroup(number, types[number], rows));
    map.rows.push(...rows);
  }
  byId("map").classList.toggle("tall", map.rows.length > TALL);
  map.reached = map.rows[0];
  map.reached.bar.tabIndex = 0;
  writeSummary();
  writeKey();
  watchRows();
}

function makeRow(block, index) {
  const canvas = element("canvas", { "aria-hidden": "true" });
  const cursor = element("i", { class: "cursor", hidden: "" });
  const bar = element("div", { class: "block", role: "slider", tabindex: -1, "data-ranges": block.ranges.length });
  bar.append(canvas, cursor);
  const kind = className(block.class);
  const pool = block.pool ? `, pool ${block.pool}` : "";
  const what = (block.dedicated ? `${kind}, dedicated` : kind) + pool;
  const short = block.dedicated && block.ranges[0]?.name ? block.ranges[0].name : kind + pool;
  const label = element("span", { class: "label", title: `${short}: ${what}` });
  label.append(element("b", {}, `#${formatCount(block.number)}`), " ", element("bdi", {}, short));
  const size = element("span", { class: "size" }, formatBytes(block.bytes));
  const whole = element("div", { class: "row" }, label, element("div", { class: "track" }, bar), size);
  const row = { index, block, hits: null, element: whole, bar, canvas, cursor, at: -1, seen: false, stale: true };
  const free = formatBytes(Math.max(0, block.bytes - usedBytes(block)));
  bar.setAttribute("aria-label", `Block ${block.number}, ${what}, ${formatBytes(block.bytes)}, ${free} free`);
  bar.setAttribute("aria-describedby", "map-help");
  bar.setAttribute("aria-valuemin", 0);
  bar.setAttribute("aria-valuemax", Math.max(0, block.ranges.length - 1));
  bar.setAttribute("aria-valuenow", 0);
  bar.setAttribute("aria-valuetext", plural(block.ranges.length, "range"));
  bar.row = row;
  return row;
}

function makeGroup(number, type, rows) {
  const reserved = rows.reduce((sum, row) => sum + row.block.bytes, 0);
  const used = rows.reduce((sum, row) => sum + usedBytes(row.block), 0);
  const share = reserved ? `, ${((used / reserved) * 100).toFixed(1)}\u00a0% used` : "";
  const properties = type && type.properties.length ? type.properties.join(", ") : "no properties";
  const heading = element("h3", {}, `Type ${number}`, element("span", {}, properties));
  const heap = type ? `heap ${type.heap}, ` : "";
  const line = element("p", {}, `${heap}${plural(rows.length, "block")}, ${formatBytes(reserved)}${share}`);
  const group = element("div", { class: "group", role: "group", "aria-label": `Type ${number}, ${properties}` });
  group.append(element("header", {}, heading, line), ...rows.map((row) => row.element));
  const alone = rows.find((row) => row.block.dedicated);
  if (alone) alone.element.before(element("p", { class: "alone" }, "Dedicated: one resource per block"));
  return group;
}

// Writes the totals of the map, which are computed from the data that is drawn.
function writeSummary() {
  const ranges = map.rows.reduce((sum, row) => sum + row.block.ranges.length, 0);
  const reserved = map.rows.reduce((sum, row) => sum + row.block.bytes, 0);
  const used = map.rows.reduce((sum, row) => sum + usedBytes(row.block), 0);
  const figure = (name, value, text) => element("span", { "data-map": name, "data-value": value }, text);
  byId("map-summary").replaceChildren(
    figure("block_count", map.rows.length, plural(map.rows.length, "block")), ", ",
    figure("allocation_count", ranges, plural(ranges, "range")), ", ",
    figure("used_bytes", used, formatBytes(used)), " used of ",
    figure("reserved_bytes", reserved, formatBytes(reserved)),
  );
}

function writeKey() {
  const classes = [...new Set(map.rows.map((row) => row.block.class))].sort();
  const entry = (kind, name) => element("li", {}, element("i", { class: kind }), name);
  const entries = classes.map((name) => entry(`fill-${classColour(name)}`, className(name)));
  byId("map-key").replaceChildren(...entries, entry("free", "free"));
}
