// Puts the page together.

const DRAW = {
  overview: drawOverview,
  rollouts: drawRollouts,
  tokens: drawTokens,
  training: drawTraining,
  compare: drawCompare,
};
const root = document.documentElement;

function draw() {
  const views = viewsHere().map(view => {
    const current = view === state.view ? "page" : null;
    return h("a", { id: `to-${view}`, href: linkTo({ view }), "aria-current": current }, inUnits(VIEWS[view]));
  });
  document.getElementById("views").replaceChildren(...views);
  document.getElementById("signal").value = state.signal;
  document.getElementById("shading").textContent = shadedBy();
  document.body.dataset.view = state.view;
  DRAW[state.view](document.getElementById("main"));
}

function announce(text) {
  document.getElementById("announce").textContent = text;
}

// What can be chosen depends on the data.
function fillControls() {
  const options = signalNames().map(name => h("option", { value: name }, inUnits(SIGNALS[name])));
  document.getElementById("signal").replaceChildren(...options);
}

function setUpControls() {
  for (const element of document.querySelectorAll(".unit")) element.textContent = inUnits(element.textContent);
  const on = (id, name, f) => document.getElementById(id).addEventListener(name, f);
  on("signal", "change", event => go({ signal: event.target.value }));
  for (const name of ["palette", "theme"]) on(name, "change", event => (root.dataset[name] = event.target.value));
  on("help-button", "click", () => document.getElementById("help").showModal());
  on("main", "pointerover", onTokenOver);
  on("main", "click", onTokenClick);
  const menu = document.getElementById("menu");
  document.addEventListener("keydown", onKey);
  document.addEventListener("click", onLink);
  document.addEventListener("pointerdown", event => {
    if (!menu.contains(event.target)) menu.open = false;
  });
  for (const name of ["hashchange", "popstate"]) addEventListener(name, () => (readState(), draw()));
}

function onKey(event) {
  const typing = event.target.matches?.("input:not([type=checkbox]):not([type=range]), textarea");
  if (event.altKey || event.ctrlKey || event.metaKey || document.getElementById("help").open) return;
  if (event.key === "Escape") {
    document.getElementById("menu").open = false;
    return typing ? event.target.blur() : letGo();
  }
  if (typing || event.target.matches?.("select")) return;
  const keys = {
    "[": () => state.view === "rollouts" && toNeighbour(-1),
    "]": () => state.view === "rollouts" && toNeighbour(1),
    s: () => {
      const names = signalNames();
      go({ signal: names[(names.indexOf(state.signal) + 1) % names.length] });
      announce(SIGNALS[state.signal]);
    },
    "/": () => {
      if (!document.querySelector(".search")) go({ view: "rollouts" });
      document.querySelector(".search").focus();
    },
    "?": () => document.getElementById("help").showModal(),
  };
  viewsHere().forEach((view, i) => {
    keys[String(i + 1)] = () => go({ view });
  });
  if (!(event.key in keys)) return;
  event.preventDefault();
  keys[event.key]();
}

// For the tests, and whoever wants to look further in the console.
globalThis.ktae = { report, state, creditAt, unitsAt, fragment, linkTo, runsOf, idsOf, asJson };

// Draws the data that are in the file: first the frame, then all of it.
(async () => {
  try {
    await readFrame();
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
    const text = `This page could not be read: ${error.message}. It needs a browser of 2023 or later.`;
    document.getElementById("main").replaceChildren(h("p", { class: "warn" }, text));
    throw error;
  }
})();
