// Where the reader is and what is filtered: in the URL's fragment, so that everything has a link.

const VIEWS = {
  overview: "Overview",
  rollouts: "Rollouts",
  tokens: "Tokens",
  training: "Training",
  compare: "Compare",
};
const SIGNALS = {
  credit: "credit",
  advantage: "token advantage",
  log_prob: "log-probability",
  entropy: "entropy",
  none: "no shading",
};
const state = {};
const RANGES = ["reward", "length", "accuracy"];
const TEXTS = ["q", "outcome", "finding", "groups", "model", "file", "at"];

// Numbers in an address count from 1, as those on the page do: groups in the order of their names. In
// `state` they count from 0, and groups are in the order of the dump.
const COUNTED = ["group", "rollout", "token"];
const NO_PLACE = { group: null, rollout: null, token: null, id: null, step: null };
const NO_FILTER = { ...Object.fromEntries([...TEXTS.map(name => [name, ""]), ...RANGES.map(name => [name, null])]) };
const FRESH = { view: "overview", signal: "credit", sort: "name", ...NO_PLACE, ...NO_FILTER };

function readState(hash = location.hash) {
  const parts = new URLSearchParams(hash.slice(1));
  const fresh = { ...FRESH };
  if (viewsHere().includes(parts.get("view"))) fresh.view = parts.get("view");
  if (signalNames().includes(parts.get("signal"))) fresh.signal = parts.get("signal");
  if (parts.get("sort") in SORTS) fresh.sort = parts.get("sort");
  for (const name of Object.keys(NO_PLACE)) {
    const text = parts.get(name) ?? "";
    if (/^\d{1,10}$/.test(text)) fresh[name] = Number(text) - COUNTED.includes(name);
  }
  if (fresh.group !== null) fresh.group = placeByName().indexOf(fresh.group);
  for (const name of TEXTS) fresh[name] = parts.get(name) ?? "";
  for (const name of RANGES) {
    const ends = (parts.get(name) ?? "").split("~").map(Number);
    if (ends.length === 2 && ends.every(Number.isFinite)) fresh[name] = ends;
  }
  if (!report.findingOf.has(fresh.finding)) fresh.finding = "";
  settle(fresh);
}

// Only what there is.
function settle(fresh) {
  Object.assign(state, fresh);
  const { label, size } = report.groups;
  if (!(state.group !== null && state.group >= 0 && state.group < label.length))
    state.group = Math.max(0, firstGroup());
  if (!(state.rollout !== null && state.rollout >= 0 && state.rollout < size[state.group])) state.rollout = null;
  if (state.rollout === null || state.token < 0) state.token = null;
}

function fragment(changes = {}) {
  const all = { ...state, ...changes };
  const parts = new URLSearchParams({ view: all.view });
  if (all.view === "rollouts") {
    for (const name of COUNTED) {
      if (all[name] !== null) parts.set(name, (name === "group" ? placeByName()[all.group] : all[name]) + 1);
    }
    for (const name of TEXTS) if (all[name] !== "") parts.set(name, all[name]);
    for (const name of RANGES) if (all[name]) parts.set(name, all[name].join("~"));
    if (all.sort !== "name") parts.set("sort", all.sort);
  }
  if (all.id !== null && all.view === "tokens") parts.set("id", all.id);
  if (all.step !== null && all.view === "training") parts.set("step", all.step);
  if (all.signal !== "credit") parts.set("signal", all.signal);
  return `#${parts}`;
}

// A link that Python has made (ktae.report.data.Link): to what fits its filter alone.
const linkTo = link => fragment({ ...NO_FILTER, ...NO_PLACE, ...link });
const filtered = changes => linkTo({ view: "rollouts", ...changes });

// Move; `quiet` leaves the view as it is drawn and only keeps the link right.
function go(changes, { quiet = false } = {}) {
  const other = ["view", "group"].some(name => name in changes && changes[name] !== state[name]);
  Object.assign(state, changes);
  setAddress(fragment(), other ? "pushState" : "replaceState");
  if (!quiet) draw();
}

function setAddress(hash, how) {
  try {
    history[how](null, "", hash);
  } catch {
    // a notebook's frame has no address to change
  }
}

// Follow a link within the page. Not left to the browser: in a notebook's frame it would leave it.
function onLink(event) {
  const link = event.target.closest?.('a[href^="#"]');
  if (!link || event.button !== 0 || event.ctrlKey || event.metaKey || event.shiftKey) return;
  event.preventDefault();
  setAddress(link.getAttribute("href"), "pushState");
  readState(link.getAttribute("href"));
  draw();
  if (state.token === null) scrollTo(0, 0);
}

// Of the groups that fit, the one with a finding that has a place in it, or else most evidence.
function firstGroup() {
  const { groups, findings } = report;
  const fits = new Set(fitting().groups.filter(g => groups.first[g] >= 0));
  for (const { why, groups: its } of findings) {
    const g = why.length ? its.find(x => fits.has(x) && isMixed(x)) : undefined;
    if (g !== undefined) return g;
  }
  return groups.order.find(g => fits.has(g)) ?? -1;
}

const has = { training: () => report.charts.length > 0, compare: () => report.comparisons.length > 0 };
const viewsHere = () => Object.keys(VIEWS).filter(view => has[view]?.() ?? true);
const signalNames = () =>
  Object.keys(SIGNALS).filter(name => !["log_prob", "entropy"].includes(name) || report.signals.includes(name));
const shadedBy = () => (state.signal === "credit" ? `Credit of ${report.credit.name}` : SIGNALS[state.signal]);

const groupLabel = g => onOneLine(report.groups.label[g]);

// Of several files and steps, with these.
function groupName(g) {
  const { step, file, files } = report.groups;
  const from = file[g] < 0 ? "" : `, ${onOneLine(files[file[g]])}`;
  return groupLabel(g) + from + (step[g] === null ? "" : `, step ${step[g]}`);
}
