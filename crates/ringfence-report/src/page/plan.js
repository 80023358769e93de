// Start of a plan's page.

function repaint() {
  paintChart();
  paintStrip(aliveAt(atMoment));
}

function start() {
  prepareTheme();
  if (rowCount > 0) {
    byId("moment").hidden = false;
    byId("rows").hidden = false;
    byId("strip-end").textContent = formatBytes(plan.peak);
    byId("slider").max = lastMoment;
    byId("slider").addEventListener("input", (event) => goTo(Number(event.target.value)));
    byId("earlier").addEventListener("click", () => goTo(atMoment - 1));
    byId("later").addEventListener("click", () => goTo(atMoment + 1));
    byId("fullest").addEventListener("click", () => goTo(fullestMoment()));
    listenToChart();
    new ResizeObserver(repaint).observe(byId("rows"));
    show(whole);
    goTo(fullestMoment());
  }
  document.documentElement.dataset.ready = "yes";
  document.documentElement.dataset.readyMs = Math.round(performance.now());
}

start();
