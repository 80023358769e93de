// The charts stand in the HTML already. Here a pointer, or the arrow keys, read them frame by frame.

function prepareCharts() {
  for (const chart of document.querySelectorAll(".chart")) prepareChart(chart);
}

function prepareChart(chart) {
  const frames = report.frames;
  const format = chart.dataset.unit === "bytes" ? formatBytes : formatCount;
  const keys = chart.dataset.keys.split(" ");
  const names = [...chart.querySelectorAll(".key li")].map((entry) => entry.textContent);
  const plot = chart.querySelector(".plot");
  const cross = plot.appendChild(element("i", { class: "cross", hidden: "" }));
  let at = frames.length - 1;

  const lines = () => keys.map((key, index) => `${names[index]}: ${format(frames[at][key])}`);
  const describe = () => {
    plot.setAttribute("aria-valuenow", at);
    plot.setAttribute("aria-valuetext", [`frame ${formatCount(frames[at].frame)}`, ...lines()].join(", "));
  };
  const show = (index, y) => {
    at = Math.min(frames.length - 1, Math.max(0, index));
    const share = at / Math.max(1, frames.length - 1);
    const box = plot.getBoundingClientRect();
    cross.hidden = false;
    cross.style.left = `${share * 100}%`;
    tip.show(box.left + share * box.width, y ?? box.top, `Frame ${formatCount(frames[at].frame)}`, lines());
    describe();
  };
  const hide = () => {
    cross.hidden = true;
    tip.hide();
  };
  const pointed = (event) => {
    const box = plot.getBoundingClientRect();
    show(Math.round(((event.clientX - box.left) / box.width) * (frames.length - 1)), event.clientY);
  };

  const title = chart.querySelector("h3").textContent;
  const slider = { role: "slider", tabindex: 0, "aria-label": title, "aria-valuemin": 0, "aria-valuemax": at };
  for (const [name, value] of Object.entries(slider)) plot.setAttribute(name, value);
  describe();
  plot.addEventListener("pointermove", pointed);
  plot.addEventListener("pointerdown", pointed);
  plot.addEventListener("pointerleave", hide);
  plot.addEventListener("blur", hide);
  plot.addEventListener("focus", () => plot.matches(":focus-visible") && show(at));
  plot.addEventListener("keydown", (event) => {
    const page = Math.max(1, Math.round(frames.length / 10));
    const steps = { ArrowLeft: -1, ArrowRight: 1, ArrowDown: -1, ArrowUp: 1, PageUp: page, PageDown: -page };
    steps.Home = -Infinity;
    steps.End = Infinity;
    if (event.key === "Escape") hide();
    if (!(event.key in steps)) return;
    event.preventDefault();
    show(at + steps[event.key]);
  });
}
