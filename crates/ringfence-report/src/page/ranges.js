// The table of ranges: the ranges that the search found, or without a search the ranges of the selected block.

const PAGE = 200;
const list = { row: null, shown: 0 };

function listed() {
  if (byId("search").value.trim()) return map.found;
  return list.row ? list.row.block.ranges.map((range, index) => ({ row: list.row, index })) : [];
}

function startList() {
  list.shown = 0;
  byId("ranges-body").replaceChildren();
  const searched = byId("search").value.trim();
  const which = searched ? `named like “${searched}”` : `of block #${formatCount(list.row?.block.number ?? 0)}`;
  byId("ranges-of").textContent = `Ranges ${which}`;
  listMore();
}

function listMore() {
  const all = listed();
  const page = all.slice(list.shown, list.shown + PAGE).map(({ row, index }) => listLine(row, row.block.ranges[index]));
  byId("ranges-body").append(...page);
  list.shown += page.length;
  const left = all.length - list.shown;
  byId("ranges-more").hidden = left === 0;
  byId("ranges-more").textContent = `Show more: ${formatCount(left)} left`;
}

function listLine(row, range) {
  const number = (text) => element("td", { class: "number" }, text);
  const name = element("th", { scope: "row" }, element("bdi", {}, rangeName(range)));
  const size = number(formatBytes(range.bytes));
  return element("tr", {}, name, number(`#${formatCount(row.block.number)}`), number(formatCount(range.offset)), size);
}

function chooseBlock(row) {
  list.row = row;
  if (byId("ranges").open) startList();
}

// Opens the table of a block's ranges and moves the focus there.
function listBlock(row) {
  byId("search").value = "";
  search("");
  list.row = row;
  byId("ranges").open = true;
  startList();
  byId("ranges").querySelector("summary").focus();
}
