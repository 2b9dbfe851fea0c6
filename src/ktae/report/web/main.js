// Puts the page together.

const DRAW = {
  overview: overviewView,
  rollouts: rolloutsView,
  tokens: tokensView,
  training: trainingView,
  compare: compareView,
};
const root = document.documentElement;

function draw() {
  const link = view => {
    const current = view === state.view && "page";
    return el`<a id="to-${view}" href=${linkTo({ view })} aria-current=${current}>${inUnits(VIEWS[view])}</a>`;
  };
  document.getElementById("views").replaceChildren(...viewsHere().map(link));
  document.getElementById("signal").value = state.signal;
  document.getElementById("shading").textContent = shadedBy();
  document.body.dataset.view = state.view;
  document.getElementById("main").replaceChildren(...childrenOf(DRAW[state.view]()));
  if (state.view === "rollouts") arrive();
  if (state.view === "tokens" && state.id !== null) {
    document.getElementById("contexts").scrollIntoView({ block: "nearest" });
  }
}

function announce(text) {
  document.getElementById("announce").textContent = text;
}

function setUpControls() {
  for (const element of document.querySelectorAll(".unit")) element.textContent = inUnits(element.textContent);
  const signals = Object.keys(SIGNALS).map(name => el`<option value=${name}>${inUnits(SIGNALS[name])}</option>`);
  document.getElementById("signal").replaceChildren(...signals);
  const on = (id, name, f) => document.getElementById(id).addEventListener(name, f);
  on("signal", "change", event => go({ signal: event.target.value }));
  on("theme", "change", event => (root.dataset.theme = event.target.value));
  on("help-button", "click", () => document.getElementById("help").showModal());
  on("main", "pointerover", onTokenOver);
  on("main", "click", onTokenClick);
  const menu = document.getElementById("menu");
  document.addEventListener("keydown", onKey);
  document.addEventListener("click", onLink);
  document.addEventListener("pointerdown", event => menu.contains(event.target) || (menu.open = false));
  for (const name of ["hashchange", "popstate"]) addEventListener(name, () => (readState(), draw()));
  addEventListener("beforeprint", () => state.view === "rollouts" && [...cards.keys()].forEach(fillCard));
}

function onKey(event) {
  const typing = event.target.matches?.("input:not([type=checkbox]), textarea");
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
      const names = Object.keys(SIGNALS);
      go({ signal: names[(names.indexOf(state.signal) + 1) % names.length] });
      announce(shadedBy());
    },
    "/": () => {
      if (!document.querySelector(".search")) go({ view: "rollouts" });
      document.querySelector(".search").focus();
    },
    "?": () => document.getElementById("help").showModal(),
  };
  viewsHere().forEach((view, i) => (keys[i + 1] = () => go({ view })));
  if (!(event.key in keys)) return;
  event.preventDefault();
  keys[event.key]();
}

// For the tests, and whoever wants to look further in the console.
globalThis.ktae = { report, state, creditAt, unitsAt, fragment };

// Draws the data that are in the file: first the frame, then all of it.
(async () => {
  try {
    await readFrame();
    readState();
    setUpControls();
    if (state.view === "overview") draw(); // its numbers are here already
    await readRest();
    fitted = { key: null };
    if (state.q) readState(); // the texts to search in are there now
    draw();
    root.dataset.ready = "true";
  } catch (error) {
    const text = `This page could not be read: ${error.message}. It needs a browser of 2023 or later.`;
    document.getElementById("main").replaceChildren(el`<p class="warn">${text}</p>`);
    throw error;
  }
})();
