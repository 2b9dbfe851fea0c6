// Where the reader is and what is filtered: in the URL's fragment, so that everything has a link.

const VIEWS = ["overview", "rollouts", "tokens", "training", "compare"];
const SIGNALS = {
  credit: "credit",
  advantage: "token advantage",
  p: "p-value",
  gain: "information gain",
  log_prob: "log-probability",
  entropy: "entropy",
  none: "no shading",
};
// Which credit is shaded in full; the rest is faint.
const SHADES = {
  all: "all of it",
  p: "p < .05",
  q: "beyond chance (FDR of 5 %)",
};
const LEVEL = 0.05;
const state = {};
const NUMBERS = ["group", "rollout", "token", "id", "step"];
const RANGES = ["reward", "length", "accuracy"];
const TEXTS = ["q", "verdict", "finding", "groups", "model", "file", "at"];

// Numbers in an address count from 1, as those on the page do: groups in the order of their names. In
// `state` they count from 0, and groups are in the order of the dump.
const COUNTED = ["group", "rollout", "token"];

function readState(hash = location.hash) {
  const given = new URLSearchParams(hash.slice(1));
  const fresh = { view: "overview", signal: "credit", preset: 0, shade: "all", finished: false, sort: "order" };
  if (viewsHere().includes(given.get("view"))) fresh.view = given.get("view");
  if (signalNames().includes(given.get("signal"))) fresh.signal = given.get("signal");
  fresh.preset = Math.max(0, report.presets.findIndex((p) => p.name === given.get("preset")));
  if (given.get("shade") in SHADES) fresh.shade = given.get("shade");
  if (given.get("sort") in SORTS) fresh.sort = given.get("sort");
  fresh.finished = given.get("finished") === "1" && report.anyUnfinished;
  for (const name of NUMBERS) {
    const text = given.get(name) ?? "";
    fresh[name] = /^\d{1,10}$/.test(text) ? Number(text) - COUNTED.includes(name) : null;
  }
  fresh.group = fresh.group === null ? null : placeByName().indexOf(fresh.group);
  for (const name of TEXTS) fresh[name] = given.get(name) ?? "";
  for (const name of RANGES) {
    const ends = (given.get(name) ?? "").split("~").map(Number);
    fresh[name] = ends.length === 2 && ends.every(Number.isFinite) ? ends : null;
  }
  if (!report.findingOf.has(fresh.finding)) fresh.finding = "";
  Object.assign(state, fresh);
  if (state.group === null || !(state.group >= 0 && state.group < report.groups.label.length)) state.group = Math.max(0, firstGroup());
  if (state.rollout !== null && !(state.rollout >= 0 && state.rollout < report.groups.size[state.group])) state.rollout = null;
  if (state.rollout === null || state.token < 0) state.token = null;
}

function fragment(changes = {}) {
  const all = { ...state, ...changes };
  const parts = new URLSearchParams({ view: all.view });
  const number = (name) => (name === "group" ? placeByName()[all.group] : all[name]) + COUNTED.includes(name);
  const set = (name, is) => is && parts.set(name, String(number(name)));
  if (all.view === "rollouts") {
    for (const name of COUNTED) set(name, all[name] !== null);
    for (const name of TEXTS) if (all[name] !== "") parts.set(name, all[name]);
    for (const name of RANGES) if (all[name]) parts.set(name, all[name].join("~"));
    if (all.sort !== "order") parts.set("sort", all.sort);
  }
  set("id", all.id !== null && ["tokens", "training"].includes(all.view));
  set("step", all.step !== null && all.view === "training");
  if (all.signal !== "credit") parts.set("signal", all.signal);
  if (all.preset !== 0) parts.set("preset", report.presets[all.preset].name);
  if (all.shade !== "all") parts.set("shade", all.shade);
  if (all.finished) parts.set("finished", "1");
  return `#${parts}`;
}

// Nothing is filtered, and no place is marked.
const NO_FILTER = { q: "", verdict: "", finding: "", groups: "", model: "", file: "", at: "", reward: null, length: null, accuracy: null, rollout: null, token: null };

// A link to what fits a filter alone.
const filtered = (changes) => fragment({ ...NO_FILTER, view: "rollouts", group: null, ...changes });

// Move; `quiet` leaves the view as it is drawn and only keeps the link right.
function go(changes, { quiet = false } = {}) {
  const other = ["view", "group"].some((name) => name in changes && changes[name] !== state[name]);
  Object.assign(state, changes);
  try {
    history[other ? "pushState" : "replaceState"](null, "", fragment());
  } catch { /* a notebook's frame has no address to change */ }
  if (!quiet) draw();
}

// Follow a link within the page. Not left to the browser: in a notebook's frame it would leave it.
function onLink(event) {
  const link = event.target.closest?.('a[href^="#"]');
  if (!link || event.button !== 0 || event.ctrlKey || event.metaKey || event.shiftKey) return;
  event.preventDefault();
  const hash = link.getAttribute("href");
  try {
    history.pushState(null, "", hash);
  } catch { /* as above */ }
  readState(hash);
  draw();
  if (state.token === null) scrollTo(0, 0);
}

// The group that has most to show, of those that fit the filter: mixed before others, then with a
// finding that has a place in it and with tokens beyond chance, then by their number.
function firstGroup() {
  const { groups } = report, told = new Map();
  for (const { why, groups: its } of report.findings) if (why.length) its.forEach((g) => told.set(g, (told.get(g) ?? 0) + 1));
  const rank = (g) => (isMixed(g) ? 1e9 : 0) + (told.has(g) + (groups.beyond[g] > 0)) * 1e6 + (told.get(g) ?? 0) + groups.beyond[g];
  return fitting().groups.filter((g) => groups.first[g] >= 0).reduce((best, g) => (best < 0 || rank(g) > rank(best) ? g : best), -1);
}

const viewsHere = () => VIEWS.filter((view) => (view !== "training" || report.training.steps.length > 0) && (view !== "compare" || sidesHere().length > 1));

const signalNames = () =>
  Object.keys(SIGNALS).filter((name) => !["log_prob", "entropy"].includes(name) || report.signals.includes(name));

const groupLabel = (g) => onOneLine(report.groups.label[g]);

// Of several files and steps, with these.
function groupName(g) {
  const { step, file, files } = report.groups;
  return groupLabel(g) + (file[g] < 0 ? "" : `, ${onOneLine(files[file[g]])}`) + (step[g] === null ? "" : `, step ${step[g]}`);
}
