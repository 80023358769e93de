// Drawing of the memory map: visible rows only. Each wide range is drawn on its own. Narrow ranges are added up by pixel column.

const NARROW = 3; // If a range has fewer device pixels, only the fullness of its columns is drawn.

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

// Returns the colours of the current theme. The pale ones are for ranges that the search did not find.
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

// Adds to each column the share of the column that a narrow range covers.
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

// Ranges that the search found are drawn at least two pixels wide.
function paintHits(pen, { block, hits }, perByte, height, sharp) {
  pen.globalAlpha = 1;
  pen.fillStyle = ink().hit;
  block.ranges.forEach((range, index) => {
    const wide = Math.max(2 * sharp, range.bytes * perByte - sharp);
    if (hits[index]) pen.fillRect(range.offset * perByte, 0, wide, height);
  });
}
