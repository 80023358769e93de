// Start of the page: creates the parts that need the script, and installs the listeners.

function prepareSearch() {
  let waiting = 0;
  byId("search").addEventListener("input", () => {
    clearTimeout(waiting);
    waiting = setTimeout(() => {
      search(byId("search").value);
      startList();
    }, 80);
  });
  byId("search").addEventListener("keydown", (event) => event.key === "Enter" && showNextFound());
  byId("search").addEventListener("blur", () => tip.hide());
  byId("next").addEventListener("click", showNextFound);
  byId("next").disabled = true;
}

function prepareScale() {
  const largest = map.rows.reduce((most, row) => Math.max(most, row.block.bytes), 1);
  byId("one-scale").addEventListener("change", (event) => {
    for (const row of map.rows) {
      row.bar.style.width = event.target.checked ? `max(3px, ${(row.block.bytes / largest) * 100}%)` : "";
    }
    repaint();
  });
}

function start() {
  prepareTheme();
  prepareCharts();
  if (report.snapshot.blocks.length) {
    for (const id of ["map-tools", "map-help", "ranges"]) byId(id).hidden = false;
    buildMap();
    listenToMap();
    prepareSearch();
    prepareScale();
    map.onChange = chooseBlock;
    list.row = map.rows[0];
    byId("ranges").addEventListener("toggle", () => byId("ranges").open && startList());
    byId("ranges-more").addEventListener("click", listMore);
  }
  addEventListener("scroll", () => tip.hide(), { passive: true, capture: true });
  document.documentElement.dataset.ready = "yes";
  document.documentElement.dataset.readyMs = Math.round(performance.now());
}

start();
