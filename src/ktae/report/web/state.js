// Where the reader is and what is filtered: in the URL's fragment, so that everything has a link.

const VIEWS = {
  overview: "Overview",
  rollouts: "Rollouts",
  tokens: "Tokens",
  training: "Training",
  compare: "Compare",
};
const RANGES = ["reward", "length", "accuracy"];
const TEXTS = ["q", "outcome", "finding", "groups", "model", "file", "at"];

// Numbers in an address count from 1, as those on the page do: groups in the order of their names. In
// `state` they count from 0, and groups are in the order of the dump.
const COUNTED = ["group", "rollout", "token"];
const NO_PLACE = { group: null, rollout: null, token: null, id: null };
const NO_FILTER = Object.fromEntries([...TEXTS.map(name => [name, ""]), ...RANGES.map(name => [name, null])]);
const FRESH = { view: "overview", signal: "credit", sort: "name", ...NO_PLACE, ...NO_FILTER };
const state = {};

function readState(hash = location.hash) {
  const parts = new URLSearchParams(hash.slice(1));
  Object.assign(state, FRESH);
  if (viewsHere().includes(parts.get("view"))) state.view = parts.get("view");
  if (parts.get("signal") in SIGNALS) state.signal = parts.get("signal");
  if (parts.get("sort") in SORTS) state.sort = parts.get("sort");
  for (const name of TEXTS) state[name] = parts.get(name) ?? "";
  for (const name of RANGES) {
    const ends = (parts.get(name) ?? "").split("~").map(Number);
    if (ends.length === 2 && ends.every(Number.isFinite)) state[name] = ends;
  }
  if (!report.findingOf.has(state.finding)) state.finding = "";
  // Only places that there are.
  for (const name of Object.keys(NO_PLACE)) {
    const text = parts.get(name) ?? "";
    const number = /^\d{1,10}$/.test(text) ? Number(text) - COUNTED.includes(name) : -1;
    if (number >= 0) state[name] = number;
  }
  if (state.group !== null) state.group = report.groups.byName.indexOf(state.group);
  if (state.group === null || state.group < 0) state.group = firstGroup();
  if (!(state.rollout < report.groups.size[state.group])) state.rollout = null;
  if (state.rollout === null) state.token = null;
}

function fragment(changes = {}) {
  const all = { ...state, ...changes };
  const parts = new URLSearchParams({ view: all.view });
  if (all.view === "rollouts") {
    for (const name of COUNTED) {
      if (all[name] !== null) parts.set(name, (name === "group" ? report.groups.byName[all.group] : all[name]) + 1);
    }
    for (const name of TEXTS) if (all[name] !== "") parts.set(name, all[name]);
    for (const name of RANGES) if (all[name]) parts.set(name, all[name].join("~"));
    if (all.sort !== "name") parts.set("sort", all.sort);
  }
  if (all.id !== null && all.view === "tokens") parts.set("id", all.id);
  if (all.signal !== "credit") parts.set("signal", all.signal);
  return `#${parts}`;
}

// A link that Python has made (ktae.report.data.Link): to what fits its filter alone.
const linkTo = link => fragment({ ...NO_FILTER, ...NO_PLACE, ...link });

// Move; `quiet` leaves the view as it is drawn and only keeps the link right.
function go(changes, { quiet = false } = {}) {
  const isElsewhere = ["view", "group"].some(name => name in changes && changes[name] !== state[name]);
  Object.assign(state, changes);
  setAddress(fragment(), isElsewhere ? "pushState" : "replaceState");
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

const isHere = { training: () => report.charts.length > 0, compare: () => report.comparisons.length > 0 };
const viewsHere = () => Object.keys(VIEWS).filter(view => isHere[view]?.() ?? true);

// A group by its label; of several files and steps, with these.
function groupName(g) {
  const { label, step, file, files } = report.groups;
  const from = file[g] < 0 ? "" : `, ${onOneLine(files[file[g]])}`;
  return onOneLine(label[g]) + from + (step[g] === null ? "" : `, step ${step[g]}`);
}
