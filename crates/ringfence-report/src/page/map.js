// The memory map: one row a block, its ranges drawn to scale on a canvas when the row comes into view.
//
// A row is { index, block, hits, element, bar, canvas, cursor, at, seen, stale }: `hits` has a 1 for each range that the
// search found, or is null while nothing is searched; `at` is the range that the arrow keys stand on.

const NARROW = 3; // A range of fewer device pixels is not drawn alone: its column shows how full it is.
const TALL = 60; // With more rows than this the map scrolls in its own box.
const CLASSES = { buffers: "blue", textures: "orange", "render targets": "green", all: "purple" };

// `reached` is the row that the tab key comes to.
const map = { rows: [], reached: null, found: [], foundAt: -1, ink: null, onChange: () => {} };

const classColour = (name) => CLASSES[name] ?? "sky";
const rangeName = (range) => range.name || "(no name)";
const usedBytes = (block) => block.ranges.reduce((sum, range) => sum + range.bytes, 0);

function buildMap() {
  const { types, blocks } = report.snapshot;
  const groups = new Map();
  blocks.forEach((block, index) => {
    if (!groups.has(block.memory_type)) groups.set(block.memory_type, []);
    groups.get(block.memory_type).push(makeRow(block, index));
  });
  for (const number of [...groups.keys()].sort((one, other) => one - other)) {
    const rows = groups.get(number).sort((one, other) => one.block.dedicated - other.block.dedicated);
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
  const what = block.dedicated ? `${block.class}, dedicated` : block.class;
  const short = block.dedicated && block.ranges[0]?.name ? block.ranges[0].name : block.class;
  const name = element("bdi", {}, short);
  const label = element("span", { class: "label", title: `${short}: ${what}` }, element("b", {}, `#${index}`), " ", name);
  const size = element("span", { class: "size" }, formatBytes(block.bytes));
  const whole = element("div", { class: "row" }, label, element("div", { class: "track" }, bar), size);
  const row = { index, block, hits: null, element: whole, bar, canvas, cursor, at: -1, seen: false, stale: true };
  const free = formatBytes(Math.max(0, block.bytes - usedBytes(block)));
  bar.setAttribute("aria-label", `Block ${index}, ${what}, ${formatBytes(block.bytes)}, ${free} free`);
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
  if (alone) alone.element.before(element("p", { class: "alone" }, "Dedicated: memory of one resource each"));
  return group;
}

// What the map holds, counted from what it is drawn from.
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
  const entries = classes.map((name) => entry(`fill-${classColour(name)}`, name));
  byId("map-key").replaceChildren(...entries, entry("free", "free"));
}

// Drawing.

function watchRows() {
  const watcher = new IntersectionObserver((entries) => {
    for (const { target, isIntersecting } of entries) {
      target.row.seen = isIntersecting;
      if (isIntersecting && target.row.stale) paint(target.row);
    }
  }, { rootMargin: "200px" });
  map.rows.forEach((row) => watcher.observe(row.bar));
  new ResizeObserver(repaint).observe(byId("map"));
  addEventListener("beforeprint", () => map.rows.forEach(paint));
}

function repaint() {
  map.ink = null;
  for (const row of map.rows) {
    row.stale = true;
    if (row.seen) paint(row);
  }
}

// The colours of the present theme; the pale ones are for what the search did not find.
function ink() {
  if (map.ink) return map.ink;
  map.ink = { hit: colour("var(--hit)") };
  for (const name of ["blue", "orange", "green", "purple", "sky"]) {
    map.ink[name] = colour(`var(--${name})`);
    map.ink[`pale ${name}`] = colour(`color-mix(in srgb, var(--${name}) 30%, var(--card))`);
  }
  return map.ink;
}

function paint(row) {
  const { canvas, block, hits } = row;
  const sharp = devicePixelRatio || 1;
  const width = (canvas.width = Math.max(1, Math.round(canvas.clientWidth * sharp)));
  const height = (canvas.height = Math.max(1, Math.round(canvas.clientHeight * sharp)));
  const pen = canvas.getContext("2d");
  const perByte = width / block.bytes;
  const gap = Math.max(1, Math.round(sharp));
  const narrow = new Float32Array(width + 2);
  pen.fillStyle = ink()[(hits ? "pale " : "") + classColour(block.class)];
  block.ranges.forEach((range, index) => {
    if (hits && hits[index]) return;
    const left = range.offset * perByte;
    const wide = range.bytes * perByte;
    if (wide < NARROW) spread(narrow, left, wide);
    else pen.fillRect(left, 0, wide - gap, height);
  });
  paintNarrow(pen, narrow, height);
  if (hits) paintHits(pen, row, perByte, height, sharp);
  row.stale = false;
}

// Adds to each column the share of it that a narrow range covers.
function spread(columns, left, wide) {
  const first = Math.floor(left);
  for (let column = first; column < left + wide && column < columns.length; column += 1) {
    columns[column] += Math.min(left + wide, column + 1) - Math.max(left, column);
  }
}

function paintNarrow(pen, columns, height) {
  columns.forEach((share, column) => {
    if (share === 0) return;
    pen.globalAlpha = Math.min(1, 0.3 + 0.7 * share);
    pen.fillRect(column, 0, 1, height);
  });
}

// What was searched for is never narrower than two pixels.
function paintHits(pen, { block, hits }, perByte, height, sharp) {
  pen.globalAlpha = 1;
  pen.fillStyle = ink().hit;
  block.ranges.forEach((range, index) => {
    if (hits[index]) pen.fillRect(range.offset * perByte, 0, Math.max(2 * sharp, range.bytes * perByte - sharp), height);
  });
}

// Pointing.

// The index of the first range that begins after `byte`.
function firstAfter(ranges, byte) {
  let [low, high] = [0, ranges.length];
  while (low < high) {
    const middle = (low + high) >> 1;
    if (ranges[middle].offset <= byte) low = middle + 1;
    else high = middle;
  }
  return low;
}

// The range under a point, or one that a pixel beside it touches; -1 where there is none. And how many share the pixel.
function rangeAt({ ranges }, byte, pixelBytes) {
  const after = firstAfter(ranges, byte);
  const before = ranges[after - 1];
  const shared = firstAfter(ranges, byte + pixelBytes) - firstAfter(ranges, byte - pixelBytes);
  if (before && byte < before.offset + before.bytes + pixelBytes) return { index: after - 1, shared };
  if (ranges[after] && ranges[after].offset < byte + pixelBytes) return { index: after, shared };
  return { index: -1, shared: 0 };
}

function pointAt(row, event) {
  const box = row.bar.getBoundingClientRect();
  const pixelBytes = row.block.bytes / box.width;
  const byte = Math.max(0, Math.min(row.block.bytes - 1, (event.clientX - box.left) * pixelBytes));
  const { index, shared } = rangeAt(row.block, byte, pixelBytes);
  if (index >= 0) return showRange(row, index, event.clientX, event.clientY, shared);
  const after = firstAfter(row.block.ranges, byte);
  const from = after ? row.block.ranges[after - 1].offset + row.block.ranges[after - 1].bytes : 0;
  const to = row.block.ranges[after]?.offset ?? row.block.bytes;
  row.cursor.hidden = true;
  tip.show(event.clientX, event.clientY, "Free", [`${formatBytes(to - from)} at ${formatBytes(from)}`, `block #${row.index}`]);
}

function describeRange(row, index, shared) {
  const range = row.block.ranges[index];
  const next = row.block.ranges[index + 1]?.offset ?? row.block.bytes;
  const free = next - range.offset - range.bytes;
  const lines = [
    `${formatBytes(range.bytes)} at ${formatBytes(range.offset)}`,
    `offset ${formatCount(range.offset)}, size ${formatCount(range.bytes)}`,
    `range ${formatCount(index + 1)} of ${formatCount(row.block.ranges.length)} in block #${row.index}`,
  ];
  if (free > 0) lines.push(`then ${formatBytes(free)} free`);
  if (shared > 2) lines.push(`${formatCount(shared - 1)} more lie this close`);
  return lines;
}

function showRange(row, index, x, y, shared = 0) {
  const range = row.block.ranges[index];
  const lines = describeRange(row, index, shared);
  row.at = index;
  row.cursor.hidden = false;
  row.cursor.style.left = `${(range.offset / row.block.bytes) * 100}%`;
  row.cursor.style.width = `${(range.bytes / row.block.bytes) * 100}%`;
  row.bar.setAttribute("aria-valuenow", index);
  row.bar.setAttribute("aria-valuetext", `${rangeName(range)}, ${lines[0]}`);
  const box = row.bar.getBoundingClientRect();
  tip.show(x ?? box.left + (range.offset / row.block.bytes) * box.width, y ?? box.top, rangeName(range), lines);
}

function leaveRow(row) {
  row.cursor.hidden = true;
  tip.hide();
}

// Keys.

function focusRow(row) {
  map.reached.bar.tabIndex = -1;
  map.reached = row;
  row.bar.tabIndex = 0;
  row.bar.focus();
}

function stepRange(row, target) {
  if (row.block.ranges.length === 0) return;
  showRange(row, Math.max(0, Math.min(row.block.ranges.length - 1, target)));
}

function pressKey(row, event) {
  const beside = (step) => map.rows[map.rows.indexOf(row) + step];
  const ends = { Home: 0, End: Infinity };
  const steps = { ArrowLeft: -1, ArrowRight: 1, PageUp: -10, PageDown: 10 };
  if (event.key in steps) stepRange(row, row.at < 0 ? 0 : row.at + steps[event.key]);
  else if (event.key in ends) stepRange(row, ends[event.key]);
  else if (event.key === "ArrowUp" || event.key === "ArrowDown") {
    const other = beside(event.key === "ArrowUp" ? -1 : 1);
    if (other) focusRow(other);
  } else if (event.key === "Enter") listBlock(row);
  else if (event.key === "Escape") leaveRow(row);
  else return;
  event.preventDefault();
}

// One listener for all rows: events of a row's parts find their row.
function listenToMap() {
  const on = (kind, act) => byId("map").addEventListener(kind, (event) => {
    const row = event.target.closest?.(".block")?.row;
    if (row) act(row, event);
  });
  on("pointermove", pointAt);
  on("pointerdown", pointAt);
  on("pointerout", leaveRow);
  on("focusout", leaveRow);
  on("focusin", (row) => row.bar.matches(":focus-visible") && stepRange(row, Math.max(0, row.at)));
  on("keydown", pressKey);
  on("click", (row) => map.onChange(row));
}

// Searching.

function search(text) {
  const wanted = text.trim().toLowerCase();
  map.found = [];
  map.foundAt = -1;
  for (const row of map.rows) {
    row.hits = wanted ? new Uint8Array(row.block.ranges.length) : null;
    if (wanted) row.block.ranges.forEach((range, index) => {
      if (!range.name.toLowerCase().includes(wanted)) return;
      row.hits[index] = 1;
      map.found.push({ row, index });
    });
    row.element.classList.toggle("dim", Boolean(wanted) && !row.hits.includes(1));
  }
  writeFound(wanted);
  repaint();
}

function writeFound(wanted) {
  const bytes = map.found.reduce((sum, { row, index }) => sum + row.block.ranges[index].bytes, 0);
  const text = map.found.length ? `${plural(map.found.length, "range")}, ${formatBytes(bytes)}` : "nothing of that name";
  byId("found").textContent = wanted ? text : "";
  byId("found").dataset.value = map.found.length;
  byId("next").disabled = map.found.length === 0;
}

function showNextFound() {
  if (map.found.length === 0) return;
  map.foundAt = (map.foundAt + 1) % map.found.length;
  const { row, index } = map.found[map.foundAt];
  row.element.scrollIntoView({ block: "nearest" });
  showRange(row, index);
}
