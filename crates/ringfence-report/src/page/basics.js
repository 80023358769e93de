"use strict";
// Shared by the other scripts: the data, numbers as text, elements, and the tooltip.

const report = JSON.parse(document.getElementById("ringfence-data").textContent);
const byId = (id) => document.getElementById(id);

// Writes the same texts as `units.rs`.
function formatBytes(value) {
  const units = ["B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];
  let unit = 0;
  while (value >= 1023.5 && unit + 1 < units.length) {
    value /= 1024;
    unit += 1;
  }
  if (Math.round(value) >= 1000) return `${formatCount(Math.round(value))}\u00a0${units[unit]}`;
  const decimals = Number.isInteger(value) || value >= 100 ? 0 : value >= 10 ? 1 : 2;
  const ten = 10 ** decimals;
  return `${(Math.round(value * ten) / ten).toFixed(decimals)}\u00a0${units[unit]}`;
}

function formatCount(value) {
  return String(value).replace(/\B(?=(\d{3})+$)/g, ",");
}

function plural(value, one) {
  return `${formatCount(value)}\u00a0${one}${value === 1 ? "" : "s"}`;
}

// Creates an element with attributes and children. Strings become text, never markup.
function element(tag, attributes = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  made.append(...children);
  return made;
}

// Returns a colour of the style sheet as it is in the current theme.
function colour(value) {
  const probe = element("i");
  probe.style.color = value;
  document.body.append(probe);
  const found = getComputedStyle(probe).color;
  probe.remove();
  return found;
}

const tip = {
  // Shows a heading and lines below it, near a point of the window.
  show(x, y, heading, lines) {
    const box = byId("tip");
    const under = lines.map((line) => element("span", {}, line));
    box.replaceChildren(element("strong", {}, element("bdi", {}, heading)), ...under);
    box.hidden = false;
    const { width, height } = box.getBoundingClientRect();
    const left = Math.min(x + 12, document.documentElement.clientWidth - width - 8);
    const top = y + 20 + height > innerHeight ? y - height - 12 : y + 20;
    box.style.left = `${Math.max(8, left)}px`;
    box.style.top = `${Math.max(8, top)}px`;
  },
  hide() {
    byId("tip").hidden = true;
  },
};
