// Search of the memory map by name.

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
  const found = `${plural(map.found.length, "range")}, ${formatBytes(bytes)}`;
  byId("found").textContent = !wanted ? "" : map.found.length ? found : "no range has this name";
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
