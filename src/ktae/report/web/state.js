// Where the reader is: in the URL's fragment, so that every view, group and token has a link.

const VIEWS = ["rollouts", "tokens", "groups", "training"];
const SIGNALS = {
  credit: "credit",
  advantage: "token advantage",
  p: "p-value",
  gain: "information gain",
  log_prob: "log-probability",
  entropy: "entropy",
  none: "no shading",
};
// Which credit is shaded in full; the rest, which chance explains, is faint.
const SHADES = {
  p: "p < .05",
  q: "FDR of 5 %",
  all: "all",
};
const LEVEL = 0.05;
const MEAN_CREDIT = "mean |credit|: over the counted tokens of rollouts with a verdict, in mixed groups";
const state = {};
const NUMBERS = ["group", "rollout", "token", "id", "step"];

function readState(hash = location.hash) {
  const given = new URLSearchParams(hash.slice(1));
  const fresh = { view: "rollouts", signal: "credit", preset: 0, shade: "p", finished: false, group: null, rollout: null, token: null, id: null, step: null };
  if (VIEWS.includes(given.get("view"))) fresh.view = given.get("view");
  if (signalNames().includes(given.get("signal"))) fresh.signal = given.get("signal");
  const preset = report.presets.findIndex((p) => p.name === given.get("preset"));
  fresh.preset = Math.max(0, preset);
  if (given.get("shade") in SHADES) fresh.shade = given.get("shade");
  fresh.finished = given.get("finished") === "1" && report.anyUnfinished;
  for (const name of NUMBERS) {
    const text = given.get(name);
    if (text !== null && /^\d{1,10}$/.test(text)) fresh[name] = Number(text);
  }
  if (!(fresh.group < report.groups.label.length) || fresh.group === null) fresh.group = firstGroup();
  if (fresh.rollout !== null && fresh.rollout >= report.groups.size[fresh.group]) fresh.rollout = null;
  if (fresh.rollout === null) fresh.token = null;
  Object.assign(state, fresh);
}

function fragment(changes = {}) {
  const all = { ...state, ...changes };
  const parts = new URLSearchParams({ view: all.view });
  if (all.view === "rollouts") {
    parts.set("group", all.group);
    if (all.rollout !== null) parts.set("rollout", all.rollout);
    if (all.token !== null) parts.set("token", all.token);
  }
  if (all.id !== null && (all.view === "tokens" || all.view === "training")) parts.set("id", all.id);
  if (all.step !== null && all.view === "training") parts.set("step", all.step);
  if (all.signal !== "credit") parts.set("signal", all.signal);
  if (all.preset !== 0) parts.set("preset", report.presets[all.preset].name);
  if (all.shade !== "p") parts.set("shade", all.shade);
  if (all.finished) parts.set("finished", "1");
  return `#${parts}`;
}

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
  scrollTo(0, 0);
}

// The first mixed group with a suspicious rollout on the page, else the first mixed one, else any.
function firstGroup() {
  const { groups, flags } = report;
  const shown = (g) => groups.first[g] >= 0;
  const flag = flags.find((f) => shown(f.group) && isMixed(f.group));
  if (flag) return flag.group;
  const all = groups.label.map((_, g) => g).filter(shown);
  return all.find(isMixed) ?? all[0] ?? 0;
}

const signalNames = () =>
  Object.keys(SIGNALS).filter((name) => !["log_prob", "entropy"].includes(name) || report.signals.includes(name));

const groupLabel = (g) => onOneLine(report.groups.label[g]);

// Of several files and steps, with these.
function groupName(g) {
  const { step, file, files } = report.groups;
  return groupLabel(g) + (file[g] < 0 ? "" : `, ${onOneLine(files[file[g]])}`) + (step[g] === null ? "" : `, step ${step[g]}`);
}
