"use strict";
// Light or dark: as the system says, until the reader decides otherwise.
const system = matchMedia("(prefers-color-scheme: dark)");
const paint = dark => { document.documentElement.dataset.theme = dark ? "dark" : "light"; };
paint(system.matches);
system.addEventListener("change", event => paint(event.matches));
document.getElementById("theme").addEventListener("click", () => paint(document.documentElement.dataset.theme !== "dark"));

// A click on a heading sorts by its column, best or first first; another one turns it round. What is missing stays last.
for (const table of document.querySelectorAll("table.sortable")) {
  const heads = [...table.tHead.rows[0].cells];
  heads.forEach((head, column) => head.querySelector("button").addEventListener("click", () => {
    const order = head.getAttribute("aria-sort") === head.dataset.first
      ? { ascending: "descending", descending: "ascending" }[head.dataset.first] : head.dataset.first;
    heads.forEach(other => other.removeAttribute("aria-sort"));
    head.setAttribute("aria-sort", order);
    const key = row => row.cells[column].dataset.value;
    const sign = order === "ascending" ? 1 : -1;
    const compare = (a, b) => isNaN(a) || isNaN(b) ? a.localeCompare(b) : a - b;
    const rows = [...table.tBodies[0].rows];
    rows.sort((a, b) => !key(a) - !key(b) || sign * compare(key(a), key(b)));
    table.tBodies[0].append(...rows);
  }));
}

// The values under the pointer; the arrow keys do the same for a chart that has the focus.
for (const chart of document.querySelectorAll(".chart")) {
  const svg = chart.querySelector("svg"), tip = chart.querySelector(".tip"), cross = chart.querySelector(".cross");
  const stops = JSON.parse(chart.querySelector("script").textContent);
  let at = -1;
  const hide = () => { tip.hidden = true; cross.setAttribute("visibility", "hidden"); };
  const show = index => {
    at = index;
    const stop = stops[index];
    tip.replaceChildren();
    tip.append(Object.assign(document.createElement("b"), { textContent: stop.title }));
    for (const [colour, name, value] of stop.values) {
      const line = document.createElement("div"), dot = document.createElement("i");
      dot.textContent = "● ";
      dot.style.setProperty("--c", colour);
      line.append(dot, `${name}: ${value}`);
      tip.append(line);
    }
    tip.hidden = false;
    cross.setAttribute("visibility", "visible");
    cross.setAttribute("x1", stop.x);
    cross.setAttribute("x2", stop.x);
    const box = svg.getBoundingClientRect(), frame = chart.getBoundingClientRect();
    const x = box.left - frame.left + stop.x * box.width / svg.viewBox.baseVal.width;
    const left = x + 14 + tip.offsetWidth < frame.width ? x + 14 : x - 14 - tip.offsetWidth;
    tip.style.left = `${Math.max(4, left)}px`;
    tip.style.top = `${box.top - frame.top + 12}px`;
  };
  svg.addEventListener("pointermove", event => {
    const box = svg.getBoundingClientRect();
    const x = (event.clientX - box.left) * svg.viewBox.baseVal.width / box.width;
    show(stops.reduce((best, stop, index) => Math.abs(stop.x - x) < Math.abs(stops[best].x - x) ? index : best, 0));
  });
  svg.addEventListener("pointerleave", hide);
  chart.addEventListener("blur", hide);
  chart.addEventListener("keydown", event => {
    const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (event.key === "Escape") hide();
    if (!step) return;
    event.preventDefault();
    show(Math.min(stops.length - 1, Math.max(0, at + step)));
  });
}
