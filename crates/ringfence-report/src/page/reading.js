// Reading a chart: a pointer, or the arrow keys while the chart has the focus, shows the values of a frame beside a
// line through the frame.

// `read` describes the `count` values of a chart: `heading(at)` and `lines(at)` are the texts of value `at`,
// `share(at)` is its position as a share of the width, and `nearest(share)` is the index of the nearest value.
function prepareReading(plot, title, read) {
  const cross = plot.appendChild(element("i", { class: "cross", hidden: "" }));
  let at = read.count - 1;

  const describe = () => {
    plot.setAttribute("aria-valuenow", at);
    plot.setAttribute("aria-valuetext", [read.heading(at).toLowerCase(), ...read.lines(at)].join(", "));
  };
  const show = (index, y) => {
    at = Math.min(read.count - 1, Math.max(0, index));
    const share = read.share(at);
    const box = plot.getBoundingClientRect();
    cross.hidden = false;
    cross.style.left = `${share * 100}%`;
    tip.show(box.left + share * box.width, y ?? box.top, read.heading(at), read.lines(at));
    describe();
  };
  const hide = () => {
    cross.hidden = true;
    tip.hide();
  };
  const pointed = (event) => {
    const box = plot.getBoundingClientRect();
    show(read.nearest((event.clientX - box.left) / box.width), event.clientY);
  };

  const slider = { role: "slider", tabindex: 0, "aria-label": title, "aria-valuemin": 0, "aria-valuemax": at };
  for (const [name, value] of Object.entries(slider)) plot.setAttribute(name, value);
  describe();
  plot.addEventListener("pointermove", pointed);
  plot.addEventListener("pointerdown", pointed);
  plot.addEventListener("pointerleave", hide);
  plot.addEventListener("blur", hide);
  plot.addEventListener("focus", () => plot.matches(":focus-visible") && show(at));
  plot.addEventListener("keydown", (event) => {
    const page = Math.max(1, Math.round(read.count / 10));
    const steps = { ArrowLeft: -1, ArrowRight: 1, ArrowDown: -1, ArrowUp: 1, PageUp: page, PageDown: -page };
    steps.Home = -Infinity;
    steps.End = Infinity;
    if (event.key === "Escape") hide();
    if (!(event.key in steps)) return;
    event.preventDefault();
    show(at + steps[event.key]);
  });
}
