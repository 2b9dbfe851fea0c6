// Puts the page together.

const DRAW = { rollouts: drawRollouts, tokens: drawTokens, groups: drawGroups, training: drawTraining };
const root = document.documentElement;

function draw() {
  const main = document.getElementById("main");
  for (const view of VIEWS) {
    const link = document.getElementById(`to-${view}`);
    link.href = fragment({ view, id: null });
    if (view === state.view) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
  document.getElementById("signal").value = state.signal;
  document.getElementById("preset").value = String(state.preset);
  document.body.dataset.view = state.view;
  drawBelieve();
  DRAW[state.view](main);
}

function announce(text) {
  document.getElementById("announce").textContent = text;
}

function drawNotes() {
  const box = document.getElementById("notes");
  box.replaceChildren();
  box.hidden = !report.notes.length;
  const severe = report.notes.filter((note) => note.severe);
  const rest = report.notes.filter((note) => !note.severe);
  const line = (note) => h("p", { class: note.severe ? "warn" : null }, h("b", {}, onOneLine(note.title), ". "), spellOut(note.text));
  box.append(...severe.map(line));
  if (rest.length) box.append(h("details", {}, h("summary", {}, `${rest.length} ${rest.length > 1 ? "notes" : "note"} on these numbers`), rest.map(line)));
}

// What can be chosen depends on the data.
function fillControls() {
  document.getElementById("signal").replaceChildren(...signalNames().map((name) => h("option", { value: name }, SIGNALS[name])));
  document.getElementById("preset").replaceChildren(...report.presets.map((p, i) => h("option", { value: String(i) }, p.name)));
}

function setUpControls() {
  const signal = document.getElementById("signal"), preset = document.getElementById("preset");
  signal.addEventListener("change", () => go({ signal: signal.value }));
  preset.addEventListener("change", () => go({ preset: Number(preset.value) }));
  document.getElementById("palette").addEventListener("change", (event) => { root.dataset.palette = event.target.value; repaint(); });
  document.getElementById("theme").addEventListener("change", (event) => { root.dataset.theme = event.target.value; repaint(); });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", repaint);
  document.getElementById("help-button").addEventListener("click", () => document.getElementById("help").showModal());
  const main = document.getElementById("main");
  main.addEventListener("pointerover", onTokenOver);
  main.addEventListener("click", onTokenClick);
  document.addEventListener("keydown", onKey);
  document.addEventListener("click", onLink);
  addEventListener("hashchange", () => { readState(); draw(); });
}

const repaint = () => document.querySelector(".scatter")?.repaint();

function onKey(event) {
  const typing = event.target.matches?.("input:not([type=checkbox]):not([type=range]), textarea");
  if (event.altKey || event.ctrlKey || event.metaKey || document.getElementById("help").open) return;
  if (event.key === "Escape") return typing ? event.target.blur() : letGo();
  if (typing || event.target.matches?.("select")) return;
  const keys = {
    "[": () => state.view === "rollouts" && go({ group: neighbour(state.group, -1), rollout: null, token: null }),
    "]": () => state.view === "rollouts" && go({ group: neighbour(state.group, 1), rollout: null, token: null }),
    s: () => { const names = signalNames(); go({ signal: names[(names.indexOf(state.signal) + 1) % names.length] }); announce(SIGNALS[state.signal]); },
    "/": () => document.querySelector(".search")?.focus(),
    "?": () => document.getElementById("help").showModal(),
  };
  VIEWS.forEach((view, i) => { keys[String(i + 1)] = () => go({ view }); });
  if (!(event.key in keys)) return;
  event.preventDefault();
  keys[event.key]();
}

// What the tests hold to the Python side, and whoever wants to look further in the console.
globalThis.ktae = { report, state, groupStatistics, runsOf, idsOf };
