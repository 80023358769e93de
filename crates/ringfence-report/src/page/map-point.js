// Pointing at the memory map: finds the range under the pointer and describes it.

// Returns the index of the first range that starts after `byte`.
function firstAfter(ranges, byte) {
  let [low, high] = [0, ranges.length];
  while (low < high) {
    const middle = (low + high) >> 1;
    if (ranges[middle].offset <= byte) low = middle + 1;
    else high = middle;
  }
  return low;
}

// Returns the index of the range at `byte`, else of a range less than a pixel away, else -1; and the number of ranges in
// the same pixel.
function rangeAt({ ranges }, byte, pixelBytes) {
  const after = firstAfter(ranges, byte);
  const before = ranges[after - 1];
  const shared = firstAfter(ranges, byte + pixelBytes) - firstAfter(ranges, byte - pixelBytes);
  if (before && byte < before.offset + before.bytes + pixelBytes) return { index: after - 1, shared };
  if (ranges[after] && ranges[after].offset < byte + pixelBytes) return { index: after, shared };
  return { index: -1, shared: 0 };
}

function pointAt(row, event) {
  const box = row.bar.getBoundingClientRect();
  const pixelBytes = row.block.bytes / box.width;
  const byte = Math.max(0, Math.min(row.block.bytes - 1, (event.clientX - box.left) * pixelBytes));
  const { index, shared } = rangeAt(row.block, byte, pixelBytes);
  if (index >= 0) return showRange(row, index, event.clientX, event.clientY, shared);
  const after = firstAfter(row.block.ranges, byte);
  const from = after ? row.block.ranges[after - 1].offset + row.block.ranges[after - 1].bytes : 0;
  const to = row.block.ranges[after]?.offset ?? row.block.bytes;
  row.cursor.hidden = true;
  const lines = [`${formatBytes(to - from)} at ${formatBytes(from)}`, `block #${formatCount(row.block.number)}`];
  tip.show(event.clientX, event.clientY, "Free", lines);
}

function describeRange(row, index, shared) {
  const range = row.block.ranges[index];
  const next = row.block.ranges[index + 1]?.offset ?? row.block.bytes;
  const free = next - range.offset - range.bytes;
  const lines = [
    `${formatBytes(range.bytes)} at ${formatBytes(range.offset)}`,
    `offset ${formatCount(range.offset)}, size ${formatCount(range.bytes)}`,
    `range ${formatCount(index + 1)} of ${formatCount(row.block.ranges.length)} in block #${formatCount(row.block.number)}`,
  ];
  if (free > 0) lines.push(`then ${formatBytes(free)} free`);
  if (shared > 2) lines.push(`${formatCount(shared - 1)} more at this pixel`);
  return lines;
}

function showRange(row, index, x, y, shared = 0) {
  const range = row.block.ranges[index];
  const lines = describeRange(row, index, shared);
  row.at = index;
  row.cursor.hidden = false;
  row.cursor.style.left = `${(range.offset / row.block.bytes) * 100}%`;
  row.cursor.style.width = `${(range.bytes / row.block.bytes) * 100}%`;
  row.bar.setAttribute("aria-valuenow", index);
  row.bar.setAttribute("aria-valuetext", `${rangeName(range)}, ${lines[0]}`);
  const box = row.bar.getBoundingClientRect();
  tip.show(x ?? box.left + (range.offset / row.block.bytes) * box.width, y ?? box.top, rangeName(range), lines);
}

function leaveRow(row) {
  row.cursor.hidden = true;
  tip.hide();
}
