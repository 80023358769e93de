// The charts and the drawings over frames are part of the HTML. This script shows their values for one frame at a time.

function prepareCharts() {
  for (const chart of document.querySelectorAll(".chart")) prepareChart(chart);
  for (const drawing of document.querySelectorAll(".drawing[data-series]")) prepareDrawing(drawing);
}

const formats = { bytes: formatBytes, count: formatCount, percent: (value) => `${formatCount(value)}\u00a0%` };

function prepareChart(chart) {
  const frames = report.frames;
  const format = formats[chart.dataset.unit];
  const keys = chart.dataset.keys.split(" ");
  const names = [...chart.querySelectorAll(".key li")].map((entry) => entry.textContent);
  const last = Math.max(1, frames.length - 1);
  prepareReading(chart.querySelector(".plot"), chart.querySelector("h3").textContent, {
    count: frames.length,
    heading: (at) => `Frame ${formatCount(frames[at].frame)}`,
    lines: (at) => keys.map((key, index) => `${names[index]}: ${format(frames[at][key])}`),
    share: (at) => at / last,
    nearest: (share) => Math.round(share * (frames.length - 1)),
  });
}

// A drawing contains its own numbers: the frame numbers, and for each series one value or null per frame.
function prepareDrawing(drawing) {
  const { unit, frames, series, left, right } = JSON.parse(drawing.dataset.series);
  const format = formats[unit];
  const [first, span] = [frames[0], Math.max(1, frames[frames.length - 1] - frames[0])];
  prepareReading(drawing, drawing.querySelector(".title").textContent, {
    count: frames.length,
    heading: (at) => `Frame ${formatCount(frames[at])}`,
    lines: (at) => series.map(({ name, values }) => `${name}: ${values[at] === null ? "unknown" : format(values[at])}`),
    share: (at) => left + (right - left) * ((frames[at] - first) / span),
    nearest: (share) => {
      const frame = first + ((share - left) / (right - left)) * span;
      const after = frames.findIndex((other) => other >= frame);
      if (after < 0) return frames.length - 1;
      return after > 0 && frame - frames[after - 1] < frames[after] - frame ? after - 1 : after;
    },
  });
}
