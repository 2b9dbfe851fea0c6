// Search and filter: which rollouts and groups fit what the reader asks for.

const SORTS = {
  order: ["name", null],
  accuracy: ["accuracy", (g) => (report.groups.known[g] ? report.groups.right[g] / report.groups.known[g] : null)],
  length: ["length", (g) => -report.groups.length[g]],
  credit: ["mean |credit|", (g) => -(report.groups.credit_abs[g] ?? -1)],
  beyond: ["tokens beyond chance", (g) => -report.groups.beyond[g]],
};

const GROUP_KINDS = {
  mixed: ["mixed", isMixed],
  right: ["all right", (g) => report.groups.known[g] > 0 && report.groups.right[g] === report.groups.known[g]],
  wrong: ["all wrong", (g) => report.groups.known[g] > 0 && report.groups.right[g] === 0],
};
const VERDICTS = { right: 1, wrong: 0, unknown: null };

const textCache = new Map(); // rollout -> its text in small letters, from the first search on
function textOf(rollout) {
  let text = textCache.get(rollout);
  if (text === undefined) textCache.set(rollout, (text = runsOf(idsOf(rollout)).map((run) => run.text).join("").toLowerCase()));
  return text;
}

// What is asked of single rollouts; null: nothing.
function rolloutTest() {
  const { rollouts } = report, tests = [];
  if (state.verdict in VERDICTS) tests.push((r) => rollouts.correct[r] === VERDICTS[state.verdict]);
  if (state.model) tests.push((r) => (rollouts.models[rollouts.model[r]] ?? "") === state.model);
  if (state.reward) tests.push((r) => rollouts.reward[r] !== null && rollouts.reward[r] >= state.reward[0] && rollouts.reward[r] <= state.reward[1]);
  if (state.length) tests.push((r) => rollouts.length[r] >= state.length[0] && rollouts.length[r] <= state.length[1]);
  const finding = report.findingOf.get(state.finding);
  if (finding?.rollouts.length) {
    const has = new Set(finding.rollouts);
    tests.push((r) => has.has(r));
  }
  if (state.q) {
    const query = state.q.toLowerCase();
    tests.push((r) => textOf(r).includes(query));
  }
  return tests.length ? (r) => tests.every((test) => test(r)) : null;
}

// And of groups.
function groupTest() {
  const { groups } = report, tests = [];
  if (state.groups in GROUP_KINDS) tests.push(GROUP_KINDS[state.groups][1]);
  if (state.file) tests.push((g) => groups.files[groups.file[g]] === state.file);
  if (state.at) tests.push((g) => String(groups.step[g]) === state.at);
  if (state.accuracy) tests.push((g) => groups.known[g] > 0 && groups.right[g] / groups.known[g] >= state.accuracy[0] - 1e-9 && groups.right[g] / groups.known[g] <= state.accuracy[1] + 1e-9);
  const finding = report.findingOf.get(state.finding);
  if (finding && finding.kind === "groups") {
    const has = new Set(finding.groups);
    tests.push((g) => has.has(g));
  }
  return (g) => tests.every((test) => test(g));
}

// The place of each group where they are sorted as people count: by file, step and name.
let names = null;
function placeByName() {
  const { groups } = report;
  if (names?.groups === groups) return names.place;
  const collator = new Intl.Collator("en", { numeric: true });
  const order = groups.label.map((_, g) => g).sort((x, y) => groups.file[x] - groups.file[y] || (groups.step[x] ?? -1) - (groups.step[y] ?? -1) || collator.compare(groups.label[x], groups.label[y]));
  const place = new Int32Array(order.length);
  order.forEach((g, i) => { place[g] = i; });
  names = { groups, place };
  return place;
}

// The groups that fit, in the order asked for, and the rollouts that do (null: all of them). A
// search is of prompts and labels too: then all rollouts of the group fit.
let fitted = { key: null };
function fitting() {
  const key = JSON.stringify([...TEXTS, ...RANGES, "sort"].map((name) => state[name] ?? null));
  if (fitted.key === key) return fitted;
  const { groups } = report, fits = groupTest(), test = rolloutTest();
  const query = (state.q ?? "").toLowerCase();
  const asPrompt = (g) => query !== "" && `${groupName(g)} ${report.texts?.prompt[g] ?? ""}`.toLowerCase().includes(query);
  const rollouts = test ? new Set() : null, chosen = [];
  for (let g = 0; g < groups.label.length; g++) {
    if (!fits(g)) continue;
    if (!test) {
      chosen.push(g);
      continue;
    }
    const first = groups.first[g];
    let n = 0;
    for (let r = first; first >= 0 && r < first + groups.size[g]; r++) if (test(r)) { rollouts.add(r); n++; }
    if (n || asPrompt(g)) chosen.push(g);
  }
  const by = SORTS[state.sort]?.[1], place = placeByName();
  chosen.sort((x, y) => (by ? (by(x) ?? Infinity) - (by(y) ?? Infinity) : 0) || place[x] - place[y]);
  fitted = { key, groups: chosen, rollouts };
  return fitted;
}

function filterBar() {
  const { groups, rollouts } = report;
  const change = (changes) => {
    Object.assign(state, changes, { rollout: null, token: null });
    const here = fitting().groups;
    go(here.includes(state.group) ? {} : { group: Math.max(0, firstGroup()) });
  };
  const select = (name, label, options) => {
    const control = h("select", { "aria-label": label, id: `filter-${name}`, onchange: (event) => change({ [name]: event.target.value }) }, h("option", { value: "" }, label),
      options.map(([value, text]) => h("option", { value, selected: value === state[name] }, text)));
    control.classList.toggle("set", state[name] !== "");
    return control;
  };
  const ofRollouts = report.findings.filter(({ kind }) => kind !== "tokens");
  const steps = [...new Set(groups.step)].filter((step) => step !== null);
  const chips = RANGES.filter((name) => state[name]).map((name) => h("button", { type: "button", class: "chip", "aria-label": `Filter by ${name}: let go`, onclick: () => change({ [name]: null }) }, `${name} ${state[name].map((x) => short(x)).join(" to ")} ×`));
  const any = fragment(NO_FILTER) !== fragment({ rollout: null, token: null });
  return h("section", { class: "filter", "aria-label": "Search and filter" }, searchBox(change),
    select("verdict", "Any verdict", Object.keys(VERDICTS).map((name) => [name, name])),
    select("groups", "Any group", Object.entries(GROUP_KINDS).map(([key, [name]]) => [key, `${name} groups`])),
    ofRollouts.length ? select("finding", "Any finding", ofRollouts.map((finding) => [finding.key, `${finding.title} (${findingCount(finding)})`])) : null,
    rollouts.models.length > 1 ? select("model", "Any model", rollouts.models.map((name) => [name, onOneLine(name)])) : null,
    groups.files.length > 1 ? select("file", "Any file", groups.files.map((name) => [name, onOneLine(name)])) : null,
    steps.length > 1 ? select("at", "Any step", steps.map((step) => [String(step), `step ${step}`])) : null,
    chips, any ? h("button", { type: "button", class: "chip", onclick: () => change(NO_FILTER) }, "clear all ×") : null);
}

// How many rollouts or groups a finding is about, and how many of them the page holds.
function findingCount({ kind, count, rollouts }) {
  return kind === "rollouts" && rollouts.length < count ? `${thousands(rollouts.length)} of ${thousands(count)} in this page` : thousands(count);
}

// What fits, in words.
function fittingLine() {
  const { groups, rollouts } = fitting(), all = report.groups.label.length;
  if (!rollouts) return groups.length < all ? `${thousands(groups.length)} of ${counted(all, "group")}` : counted(all, "group");
  return `${counted(rollouts.size, "rollout")} in ${counted(groups.length, "group")}${report.groups.shown.includes(0) ? " of this page" : ""}`;
}
