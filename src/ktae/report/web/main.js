// Puts the page together.

const DRAW = { overview: drawOverview, rollouts: drawRollouts, tokens: drawTokens, training: drawTraining, compare: drawCompare };
const NAMES = { overview: "Overview", rollouts: "Rollouts", tokens: "Tokens", training: "Training", compare: "Compare" };
const root = document.documentElement;

function draw() {
  const views = viewsHere().map((view) => h("a", { id: `to-${view}`, href: fragment({ view, id: null }), "aria-current": view === state.view ? "page" : null }, view === "tokens" ? unitName() : NAMES[view]));
  document.getElementById("views").replaceChildren(...views);
  for (const name of ["signal", "shade"]) document.getElementById(name).value = state[name];
  document.getElementById("preset").value = String(state.preset);
  const { name } = report.presets[state.preset];
  document.getElementById("shading").textContent = state.signal === "credit" ? `Credit: ${name.length > 24 ? `${name.slice(0, 23)}…` : name}` : SIGNALS[state.signal];
  document.body.dataset.view = state.view;
  DRAW[state.view](document.getElementById("main"));
}

function announce(text) {
  document.getElementById("announce").textContent = text;
}

// What can be chosen depends on the data.
function fillControls() {
  const fill = (id, entries) => document.getElementById(id).replaceChildren(...entries.map(([value, name]) => h("option", { value }, name)));
  fill("signal", signalNames().map((name) => [name, SIGNALS[name]]));
  fill("preset", report.presets.map((p, i) => [String(i), p.name]));
  fill("shade", Object.entries(SHADES));
}

function setUpControls() {
  for (const element of document.getElementById("help").querySelectorAll(".unit")) element.textContent = inUnits(element.textContent);
  for (const name of ["signal", "shade"]) document.getElementById(name).addEventListener("change", (event) => go({ [name]: event.target.value }));
  document.getElementById("preset").addEventListener("change", (event) => go({ preset: Number(event.target.value) }));
  for (const name of ["palette", "theme"]) document.getElementById(name).addEventListener("change", (event) => { root.dataset[name] = event.target.value; repaint(); });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", repaint);
  document.getElementById("help-button").addEventListener("click", () => document.getElementById("help").showModal());
  const main = document.getElementById("main"), menu = document.getElementById("menu");
  main.addEventListener("pointerover", onTokenOver);
  main.addEventListener("click", onTokenClick);
  document.addEventListener("keydown", onKey);
  document.addEventListener("click", onLink);
  document.addEventListener("pointerdown", (event) => { if (!menu.contains(event.target)) menu.open = false; });
  addEventListener("hashchange", () => { readState(); draw(); });
  addEventListener("popstate", () => { readState(); draw(); });
}

const repaint = () => document.querySelector(".scatter")?.repaint();

function onKey(event) {
  const typing = event.target.matches?.("input:not([type=checkbox]):not([type=range]), textarea");
  if (event.altKey || event.ctrlKey || event.metaKey || document.getElementById("help").open) return;
  if (event.key === "Escape") {
    document.getElementById("menu").open = false;
    return typing ? event.target.blur() : letGo();
  }
  if (typing || event.target.matches?.("select")) return;
  const keys = {
    "[": () => state.view === "rollouts" && go({ group: neighbour(state.group, -1), rollout: null, token: null }),
    "]": () => state.view === "rollouts" && go({ group: neighbour(state.group, 1), rollout: null, token: null }),
    s: () => { const names = signalNames(); go({ signal: names[(names.indexOf(state.signal) + 1) % names.length] }); announce(SIGNALS[state.signal]); },
    "/": () => { if (!document.querySelector(".search")) go({ view: "rollouts" }); document.querySelector(".search").focus(); },
    "?": () => document.getElementById("help").showModal(),
  };
  viewsHere().forEach((view, i) => { keys[String(i + 1)] = () => go({ view }); });
  if (!(event.key in keys)) return;
  event.preventDefault();
  keys[event.key]();
}

// What the tests hold to the Python side, and whoever wants to look further in the console.
globalThis.ktae = { report, state, groupStatistics, creditOf, fragment, runsOf, idsOf, asJson, pairedDifference };

// Draws the data that are in the file: first the frame, then all of it.
(async () => {
  try {
    await readFrame();
    SIGNALS.advantage = inUnits(SIGNALS.advantage);
    SORTS.beyond[0] = inUnits(SORTS.beyond[0]);
    readState();
    fillControls();
    setUpControls();
    if (state.view === "overview") draw(); // its numbers are here already
    await readRest();
    fitted = { key: null };
    draw();
    if (document.getElementById("reload")) restoreSettings();
    root.dataset.ready = "true";
  } catch (error) {
    document.getElementById("main").replaceChildren(h("p", { class: "warn" }, `This page could not be read: ${error.message}. It needs a browser of 2023 or later.`));
    throw error;
  }
})();
