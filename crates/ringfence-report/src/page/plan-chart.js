// The chart of a plan: the rectangles are on a canvas below the lines. The view shows the whole plan or a part of it.

// The rows are stored as columns of equal length. `lower` and `upper` are indices into `moments`.
const plan = report;
const rowCount = plan.size.length;
// A moment above 2^53 is a string, so that its text is exact. Its position is computed from a rounded number.
const times = Float64Array.from(plan.moments, Number);
const whole = { x: 0, y: 0, width: plan.width, height: plan.height };
const view = { ...whole };
const LOOKS = ["blue", "orange", "green", "sky", "purple"];
const PIXEL_MIN = 0.75; // The smallest size of a rectangle, in screen pixels.

const begin = times[0] ?? 0;
const xOf = (time) => (plan.width * (time - begin)) / Math.max(plan.end - begin, 1);
const yOf = (offset) => plan.height * (1 - Math.min(offset, plan.top) / plan.top);
const timeOf = (x) => begin + (x / plan.width) * (plan.end - begin);
const offsetOf = (y) => (1 - y / plan.height) * plan.top;

// Writes a number of bytes with all digits, if JavaScript represents it exactly.
const exact = (value) => (value <= Number.MAX_SAFE_INTEGER ? formatCount(value) : formatBytes(value));

// Writes a time between the known moments. Beyond 2^53 it is approximate.
const timeText = (time) =>
  time <= Number.MAX_SAFE_INTEGER ? formatCount(Math.round(time)) : `about ${time.toExponential(6)}`;

// Writes a row's offset, relative to its heap if there are several heaps.
function placeOf(offset) {
  if (plan.heaps.length < 2) return exact(offset);
  const heap = plan.heaps.findLastIndex((begin) => begin <= offset);
  return `heap ${heap}, ${exact(offset - plan.heaps[heap])}`;
}

// Returns a canvas's context, with the canvas sized to the screen's resolution.
function penOf(canvas) {
  const sharp = devicePixelRatio || 1;
  canvas.width = Math.max(1, Math.round(canvas.clientWidth * sharp));
  canvas.height = Math.max(1, Math.round(canvas.clientHeight * sharp));
  return { pen: canvas.getContext("2d"), sharp };
}

function paintChart() {
  const canvas = byId("rows");
  const { pen, sharp } = penOf(canvas);
  const perX = canvas.width / view.width;
  const perY = canvas.height / view.height;
  const least = PIXEL_MIN * sharp;
  const box = (row) => {
    const left = (xOf(times[plan.lower[row]]) - view.x) * perX;
    const right = (xOf(times[plan.upper[row]]) - view.x) * perX;
    const top = (yOf(plan.offset[row] + plan.size[row]) - view.y) * perY;
    const bottom = (yOf(plan.offset[row]) - view.y) * perY;
    return [left, top, right - left, bottom - top];
  };
  LOOKS.forEach((look, at) => {
    pen.fillStyle = colour(`var(--${look})`);
    for (let row = at; row < rowCount; row += LOOKS.length) {
      const [left, top, wide, high] = box(row);
      if (left > canvas.width || top > canvas.height || left + wide < 0 || top + high < 0) continue;
      // If a rectangle is large enough, it is drawn a pixel smaller, so that neighbours can be distinguished.
      const edge = Math.min(wide, high) > 4 * sharp ? sharp : 0;
      pen.fillRect(left, top, Math.max(wide - edge, least), Math.max(high - edge, least));
    }
  });
  label(pen, sharp, canvas, box);
}

// Returns a name, or the part of it that fits; empty if less than three letters fit.
function fitting(pen, name, room) {
  if (pen.measureText(name).width <= room) return name;
  const letters = [...name];
  const count = Math.floor((letters.length * room) / pen.measureText(name).width) - 1;
  return count >= 3 ? `${letters.slice(0, count).join("")}…` : "";
}

// Writes the names that fit into their rectangles.
function label(pen, sharp, canvas, box) {
  pen.font = `${12 * sharp}px system-ui, sans-serif`;
  pen.textBaseline = "middle";
  const [ink, shade] = [colour("var(--text)"), colour("var(--card)")];
  pen.lineWidth = 3 * sharp;
  pen.lineJoin = "round";
  let labels = 0;
  for (let row = 0; row < rowCount && labels < 400; row += 1) {
    const [left, top, wide, high] = box(row);
    if (wide < 40 * sharp || high < 16 * sharp) continue;
    const [from, to] = [Math.max(left, 0), Math.min(left + wide, canvas.width)];
    const middle = (Math.max(top, 0) + Math.min(top + high, canvas.height)) / 2;
    const name = fitting(pen, plan.name[row], to - from - 10 * sharp);
    if (!name) continue;
    pen.strokeStyle = shade;
    pen.fillStyle = ink;
    pen.strokeText(name, from + 5 * sharp, middle);
    pen.fillText(name, from + 5 * sharp, middle);
    labels += 1;
  }
}

// Returns the numbers to label, as `ticks` of `axis.rs` does: both ends, and round numbers between them that are not too
// close to an end.
function ticks(first, last) {
  const span = last - first;
  if (!(span > 0)) return [first];
  if (last > Number.MAX_SAFE_INTEGER) return [first, last];
  let step = 1;
  for (let power = 1; span / step >= 7; power *= 10) step = [1, 2, 5].map((digit) => digit * power).find((it) => span / it < 7) ?? step;
  const found = [first];
  for (let at = Math.ceil(first / step) * step; at < last; at += step) {
    if (3 * Math.min(at - first, last - at) >= 2 * step) found.push(at);
  }
  return [...found, last];
}

function timeMarks(first, last, texts) {
  const all = ticks(first, last);
  return all.map((time, at) => {
    const kind = at === 0 ? "start" : at + 1 === all.length ? "end" : "middle";
    const text = at === 0 ? texts[0] : at + 1 === all.length ? texts[1] : timeText(time);
    return element("span", { class: kind, style: `left:${((time - first) / Math.max(last - first, 1e-9)) * 100}%` }, text);
  });
}

function show({ x, y, width, height }) {
  Object.assign(view, { x, y, width, height });
  byId("lines").setAttribute("viewBox", `${x} ${y} ${width} ${height}`);
  const [first, last] = [timeOf(x), timeOf(x + width)];
  const texts = [
    x === 0 ? formatCount(plan.moments[0] ?? 0) : timeText(first),
    x + width === plan.width && rowCount > 0 ? formatCount(plan.moments.at(-1)) : timeText(last),
  ];
  byId("time-marks").replaceChildren(...timeMarks(first, last, texts));
  document.querySelectorAll(".gantt-frame .scale span").forEach((mark, quarter) => {
    mark.textContent = formatBytes(Math.round(offsetOf(y + height * (1 - quarter / 4))));
  });
  byId("whole").disabled = x === whole.x && y === whole.y && width === whole.width && height === whole.height;
  paintChart();
}

// Returns the row at a point of the view. Live rows never overlap.
function rowAt(time, offset) {
  for (let row = 0; row < rowCount; row += 1) {
    const [low, size] = [plan.offset[row], plan.size[row]];
    if (low <= offset && offset < low + size && times[plan.lower[row]] <= time && time < times[plan.upper[row]]) return row;
  }
  return null;
}

// Converts a pointer position to the units of the chart.
function pointOf(event) {
  const box = byId("gantt").getBoundingClientRect();
  const share = (at, start, length) => Math.min(1, Math.max(0, (at - start) / length));
  return {
    x: view.x + share(event.clientX, box.left, box.width) * view.width,
    y: view.y + share(event.clientY, box.top, box.height) * view.height,
  };
}

function describe(row) {
  const end = plan.offset[row] + plan.size[row];
  const last = plan.heaps.length < 2 ? ` to ${exact(end)}` : "";
  return [
    `${formatBytes(plan.size[row])} (${exact(plan.size[row])} bytes)`,
    `offset ${placeOf(plan.offset[row])}${last}`,
    `alive from ${formatCount(plan.moments[plan.lower[row]])} until ${formatCount(plan.moments[plan.upper[row]])}`,
  ];
}

function listenToChart() {
  const chart = byId("gantt");
  const lines = byId("lines");
  const marked = lines.appendChild(document.createElementNS(lines.namespaceURI, "rect"));
  let from = null;
  const area = (a, b) => ({
    x: Math.min(a.x, b.x),
    y: Math.min(a.y, b.y),
    width: Math.abs(a.x - b.x),
    height: Math.abs(a.y - b.y),
  });
  const mark = (held) => {
    for (const side of ["x", "y", "width", "height"]) marked.setAttribute(side, held ? held[side] : 0);
  };
  const isDrag = (held) => held.width > view.width / 100 && held.height > view.height / 100;
  chart.addEventListener("pointerdown", (event) => {
    if (event.button !== 0) return;
    from = pointOf(event);
    event.preventDefault();
  });
  chart.addEventListener("pointermove", (event) => {
    const point = pointOf(event);
    if (from && event.buttons) {
      tip.hide();
      return mark(area(from, point));
    }
    const row = rowAt(timeOf(point.x), offsetOf(point.y));
    if (row === null) return tip.hide();
    tip.show(event.clientX, event.clientY, plan.name[row], describe(row));
  });
  chart.addEventListener("pointerup", (event) => {
    const point = pointOf(event);
    const held = from && area(from, point);
    from = null;
    mark(null);
    if (!held) return;
    if (isDrag(held)) show(held);
    else goTo(momentBefore(timeOf(point.x)));
  });
  chart.addEventListener("pointerleave", () => {
    from = null;
    mark(null);
    tip.hide();
  });
  byId("whole").addEventListener("click", () => show(whole));
}
