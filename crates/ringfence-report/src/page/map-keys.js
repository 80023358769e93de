// Keyboard control of the memory map, and the listeners of all its rows.

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

// Installs one listener for all rows. It finds the row from the event's target.
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
