// A moment of a plan: the live rows, their offsets, and the free bytes.

const LISTED_MAX = 500;
// The last entry of `times` is the end of the plan, where no row is alive.
const lastMoment = Math.max(times.length - 2, 0);
let atMoment = 0;

// Returns the last moment that is not later than `time`.
function momentBefore(time) {
  let [low, high] = [0, lastMoment];
  while (low < high) {
    const middle = (low + high + 1) >> 1;
    if (times[middle] <= time) low = middle;
    else high = middle - 1;
  }
  return low;
}

// Returns the rows that are alive at a moment, ordered by offset.
function aliveAt(moment) {
  const rows = [];
  for (let row = 0; row < rowCount; row += 1) {
    if (plan.lower[row] <= moment && moment < plan.upper[row]) rows.push(row);
  }
  return rows.sort((a, b) => plan.offset[a] - plan.offset[b]);
}

function fullestMoment() {
  const change = new Float64Array(times.length + 1);
  for (let row = 0; row < rowCount; row += 1) {
    change[plan.lower[row]] += plan.size[row];
    change[plan.upper[row]] -= plan.size[row];
  }
  let [used, most, found] = [0, -1, 0];
  for (let moment = 0; moment <= lastMoment; moment += 1) {
    used += change[moment];
    if (used > most) [most, found] = [used, moment];
  }
  return found;
}

// Returns the size of the largest gap between rows. A gap ends at the end of its heap.
function largestGap(rows) {
  let [end, largest] = [0, 0];
  const walls = plan.heaps.map((begin) => [begin, begin]);
  const taken = rows.map((row) => [plan.offset[row], plan.offset[row] + plan.size[row]]);
  for (const [low, high] of [...walls, ...taken].sort((a, b) => a[0] - b[0] || a[1] - b[1])) {
    largest = Math.max(largest, low - end);
    end = Math.max(end, high);
  }
  return Math.max(largest, plan.peak - end);
}

function fill(id, text, value) {
  byId(id).textContent = text;
  byId(id).dataset.value = value;
}

function goTo(moment) {
  atMoment = Math.min(lastMoment, Math.max(0, moment));
  const rows = aliveAt(atMoment);
  const used = rows.reduce((sum, row) => sum + plan.size[row], 0);
  const gap = largestGap(rows);
  const x = xOf(times[atMoment] ?? 0);
  byId("cross").setAttribute("d", `M${x} 0V${plan.height}`);
  const slider = byId("slider");
  slider.value = atMoment;
  slider.setAttribute("aria-valuetext", `time ${formatCount(plan.moments[atMoment] ?? 0)}, ${formatBytes(used)} used`);
  fill("at-time", formatCount(plan.moments[atMoment] ?? ""), plan.moments[atMoment] ?? "");
  fill("at-alive", plural(rows.length, "row"), rows.length);
  fill("at-used", formatBytes(used), used);
  fill("at-free", formatBytes(plan.peak - used), plan.peak - used);
  fill("at-gap", formatBytes(gap), gap);
  byId("earlier").disabled = atMoment === 0;
  byId("later").disabled = atMoment === lastMoment;
  paintStrip(rows);
  list(rows);
}

// Draws the bytes from 0 to the peak at the current moment: used and free.
function paintStrip(rows) {
  const canvas = byId("strip");
  const { pen, sharp } = penOf(canvas);
  const perByte = canvas.width / Math.max(plan.peak, 1);
  const inks = LOOKS.map((look) => colour(`var(--${look})`));
  for (const row of rows) {
    const wide = plan.size[row] * perByte;
    pen.fillStyle = inks[row % LOOKS.length];
    const gap = wide > 4 * sharp ? sharp : 0;
    pen.fillRect(plan.offset[row] * perByte, 0, Math.max(wide - gap, PIXEL_MIN * sharp), canvas.height);
  }
}

function list(rows) {
  const number = (text) => element("td", { class: "number" }, text);
  const line = (row) =>
    element(
      "tr",
      {},
      element("th", { scope: "row" }, element("bdi", {}, plan.name[row])),
      number(placeOf(plan.offset[row])),
      number(formatBytes(plan.size[row])),
      number(formatCount(plan.moments[plan.lower[row]])),
      number(formatCount(plan.moments[plan.upper[row]])),
    );
  byId("alive").replaceChildren(...rows.slice(0, LISTED_MAX).map(line));
  const left = rows.length - LISTED_MAX;
  const more = left > 0 ? `; ${formatCount(left)} at higher offsets are not listed` : "";
  byId("alive-caption").textContent = `Alive at ${formatCount(plan.moments[atMoment] ?? "")}, by offset${more}`;
}
