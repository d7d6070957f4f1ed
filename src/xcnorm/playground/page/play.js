// The playground: the page asks, the server looks. One question at a time, and of those that wait only the newest.
const element = id => document.getElementById(id);
const make = (tag, properties = {}, ...children) => {
  const made = Object.assign(document.createElement(tag), properties);
  made.append(...children);
  return made;
};
const png = text => `data:image/png;base64,${text}`;
const percent = share => `${Math.round(100 * share)} %`;

const about = await (await fetch("/about")).json();
const values = {};
let shown = null; // the picture as it was, and what it shows where that is known

class Refusal extends Error {}

async function post(path, type, body) {
  const response = await fetch(path, { method: "POST", headers: { "Content-Type": type }, body });
  const answer = await response.json();
  if (!response.ok) throw new Refusal(answer.error);
  return answer;
}

function complain(text) {
  element("trouble").textContent = text;
  element("trouble").hidden = !text;
}

function explain(error) {
  if (!(error instanceof Refusal)) {
    complain("The server does not answer any more. Start xcnorm playground again, and open the address that it prints.");
    return;
  }
  complain(`That did not work: ${error.message}.`);
}

// What the networks see, and what they say.

let asking = false, waiting = false, timer = 0;

function ask(delay = 30) {
  clearTimeout(timer);
  if (shown) timer = setTimeout(look, delay);
}

async function look() {
  waiting = asking;
  if (asking) return;
  asking = true;
  const { picture, truth } = shown;
  try {
    const answer = await post("/look", "application/json", JSON.stringify({ picture, changes: values }));
    complain("");
    show(answer, picture, truth);
  } catch (error) {
    explain(error);
    if (!(error instanceof Refusal)) ask(2000);
  } finally {
    asking = false;
    if (waiting) look();
  }
}

function show(answer, picture, truth) {
  element("before").src = png(picture);
  element("now").src = png(answer.seen);
  element("truth").textContent = truth === null ? "As it was" : `As it was: ${truth}`;
  answer.networks.forEach((network, number) => showNetwork(network, cards[number], truth));
  element("chips").replaceChildren(...answer.networks.map((network, number) => {
    const dot = make("i");
    dot.style.setProperty("--c", colour(number));
    return make("li", {}, dot, make("b", { textContent: network.guess.name }), `${mark(network, truth)} ${network.name}`);
  }));
  announce(answer.networks.map(n => `${n.name}: ${n.guess.name}, ${percent(n.guess.share)}${mark(n, truth)}`).join("; "));
}

const mark = (network, truth) => truth === null ? "" : network.guess.name === truth ? " ✓" : " ✗";
const colour = number => `var(--s${number % 8})`;

let announcing = 0;
function announce(text) { // when the sliders rest, so that a screen reader is not interrupted
  clearTimeout(announcing);
  announcing = setTimeout(() => { element("told").textContent = text; }, 700);
}

function card(name, number) {
  const parts = {
    guess: make("p", { className: "guess" }),
    check: make("p", { className: "check" }),
    rows: make("ul", { className: "rows" }),
    maps: make("img", { alt: `First layer of ${name}: responses to the picture` }),
    moved: make("b"),
  };
  const caption = make("figcaption", {}, "First layer, moved by ", parts.moved);
  parts.responses = make("figure", { className: "responses", hidden: true }, caption, parts.maps);
  const whole = make("article", { className: "card network" }, make("h3", { textContent: name }),
    parts.guess, parts.check, parts.rows, parts.responses);
  whole.style.setProperty("--c", colour(number));
  element("networks").append(whole);
  return parts;
}

function showNetwork(network, parts, truth) {
  parts.guess.replaceChildren(network.guess.name, make("small", { textContent: percent(network.guess.share) }));
  parts.check.className = `check ${network.guess.name === truth ? "reached" : "missed"}`;
  parts.check.textContent = truth === null ? "" : network.guess.name === truth ? "✓ right" : `✗ wrong: it is ${truth}`;
  parts.rows.className = network.rows.some(row => row.name.length > 3) ? "rows words" : "rows";
  parts.rows.replaceChildren(...network.rows.map(row => {
    const bar = make("i");
    bar.style.width = `${100 * row.share}%`;
    return make("li", { className: row.best ? "best" : "" },
      make("span", { className: "name", textContent: row.name, title: row.name }),
      make("span", { className: "bar" }, bar),
      make("span", { className: "share", textContent: percent(row.share) }));
  }));
  parts.responses.hidden = network.maps === null;
  if (network.maps === null) return;
  parts.maps.src = png(network.maps.png);
  parts.moved.textContent = percent(network.maps.moved);
}

// Sliders and presets.

const sliders = Object.fromEntries(about.controls.map(control => {
  const slider = make("input", { type: "range", id: `control-${control.name}`, min: control.low, max: control.high, step: 1, title: control.hint });
  const output = make("output", { htmlFor: slider.id });
  const label = make("label", { htmlFor: slider.id, textContent: control.label, title: control.hint });
  slider.addEventListener("input", () => set({ ...values, [control.name]: slider.valueAsNumber }));
  element("controls").append(make("div", { className: "control" }, label, slider, output));
  return [control.name, { control, slider, output }];
}));

const atRest = Object.fromEntries(about.controls.map(control => [control.name, control.rest]));
const presets = Object.entries(about.presets).map(([name, changes]) => {
  const button = make("button", { type: "button", className: "push", textContent: name });
  button.addEventListener("click", () => set({ ...atRest, ...changes }));
  element("presets").append(button);
  return [button, { ...atRest, ...changes }];
});

function set(wanted) {
  Object.assign(values, wanted);
  for (const [name, { control, slider, output }] of Object.entries(sliders)) {
    const text = `${String(values[name]).replace("-", "−")}${control.unit === "%" ? " %" : control.unit}`;
    slider.value = values[name];
    slider.setAttribute("aria-valuetext", text);
    output.textContent = text;
  }
  for (const [button, changes] of presets)
    button.setAttribute("aria-pressed", Object.keys(changes).every(name => changes[name] === values[name]));
  ask();
}

element("reset").addEventListener("click", () => set(atRest));

// Samples: radio buttons, so that one press of Tab leads to them and the arrow keys through them.

for (const { domain, pictures } of about.samples) {
  const strip = make("div");
  for (const { png: picture, truth } of pictures) {
    const button = make("input", { type: "radio", name: "sample", className: "aside" });
    const choose = () => { takes += 1; wipe(); button.checked = true; shown = { picture, truth }; ask(); };
    button.addEventListener("click", choose);
    strip.append(make("label", {}, button, make("img", { src: png(picture), alt: `${truth}, ${domain}` })));
  }
  element("samples").append(make("fieldset", { className: "strip" }, make("legend", { textContent: domain }), strip));
}

// Drawings and files: the server brings them to the size that networks see; of several on their way the last one counts.

let takes = 0;

async function take(path, type, body) {
  const mine = ++takes;
  try {
    const { picture } = await post(path, type, body);
    if (mine !== takes) return;
    complain("");
    shown = { picture, truth: null };
    ask();
  } catch (error) {
    if (mine === takes) explain(error);
  }
}

element("file").addEventListener("change", async event => {
  const [file] = event.target.files;
  event.target.value = "";
  if (!file) return;
  if (file.size > about.largest) {
    complain(`That did not work: ${file.name} is larger than ${about.largest / 1e6} MB; make it smaller.`);
    return;
  }
  wipe();
  await take("/picture", "application/octet-stream", await file.arrayBuffer());
});

const canvas = element("canvas"), pen = canvas.getContext("2d");
const place = { x: 140, y: 140 };
let down = false, lowered = false, sending = 0;

function wipe() {
  pen.fillStyle = "#000";
  pen.fillRect(0, 0, canvas.width, canvas.height);
  Object.assign(place, { x: 140, y: 140 });
  clearTimeout(sending);
  sending = 0;
  unchoose();
}

function unchoose() {
  document.querySelectorAll("[name=sample]:checked").forEach(button => { button.checked = false; });
}

function stroke(x, y) {
  Object.assign(pen, { lineWidth: 20, lineCap: "round", lineJoin: "round", strokeStyle: "#fff" });
  pen.beginPath();
  pen.moveTo(place.x, place.y);
  pen.lineTo(x, y);
  pen.stroke();
  Object.assign(place, { x, y });
  unchoose();
  send();
}

function send() { // also while it is drawn
  sending ||= setTimeout(() => {
    sending = 0;
    const before = takes;
    canvas.toBlob(blob => { if (before === takes) take("/drawing", "image/png", blob); });
  }, 80);
}

const pointed = event => {
  const box = canvas.getBoundingClientRect();
  return [(event.clientX - box.left) * canvas.width / box.width, (event.clientY - box.top) * canvas.height / box.height];
};
canvas.addEventListener("pointerdown", event => {
  if (event.button) return;
  down = true;
  canvas.setPointerCapture(event.pointerId);
  const [x, y] = pointed(event);
  Object.assign(place, { x, y });
  stroke(x, y);
});
canvas.addEventListener("pointermove", event => { if (down) stroke(...pointed(event)); });
for (const end of ["pointerup", "pointercancel"]) canvas.addEventListener(end, () => { down = false; });

canvas.addEventListener("keydown", event => {
  const way = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] }[event.key];
  if (event.key !== " " && !way) return;
  event.preventDefault();
  if (event.key === " ") {
    lowered = !lowered;
    if (!lowered) return;
      stroke(place.x, place.y);
    return;
  }
  const x = Math.min(270, Math.max(10, place.x + 10 * way[0])), y = Math.min(270, Math.max(10, place.y + 10 * way[1]));
  if (lowered) stroke(x, y);
  else Object.assign(place, { x, y });
});

element("clear").addEventListener("click", () => { wipe(); send(); });

// What there is to play with.

const cards = about.networks.map(card);
const count = about.networks.length;
element("lead").textContent = `${count} ${count === 1 ? "network" : "networks"}${about.title ? `, trained on ${about.title}` : ""}. `
  + "Let a picture go wrong, and watch who still recognises it.";
element("notes").append(...about.notes.map(note => make("li", { textContent: note })));
wipe();
set(atRest);
const first = document.querySelectorAll("[name=sample]")[3] ?? document.querySelector("[name=sample]");
first?.click();
