// Search and filter: which responses and groups fit what the reader asks for.

const SORTS = {
  name: ["name", () => 0],
  evidence: ["evidence", g => placeIn(report.groups.order)[g]],
  accuracy: ["accuracy", g => accuracyOf(g) ?? Infinity],
  length: ["length", g => -report.groups.length[g]],
  credit: ["mean |credit|", g => -(report.groups.credit_abs[g] ?? -1)],
};
const GROUP_KINDS = {
  mixed: isMixed,
  correct: g => report.groups.known[g] > 0 && report.groups.n_correct[g] === report.groups.known[g],
  incorrect: g => report.groups.known[g] > 0 && report.groups.n_correct[g] === 0,
};
const OUTCOMES = { correct: 1, incorrect: 0, unknown: null };
const outcomeName = rollout => ({ 1: "correct", 0: "incorrect" })[report.rollouts.correct[rollout]] ?? "unknown";
const accuracyOf = g => (report.groups.known[g] ? report.groups.n_correct[g] / report.groups.known[g] : null);

const textCache = new Map(); // response -> its text in small letters, from the first search on
function textOf(rollout) {
  if (!textCache.has(rollout)) textCache.set(rollout, joined(idsOf(rollout)).toLowerCase());
  return textCache.get(rollout);
}

const within = (x, [low, high]) => x !== null && x >= low - 1e-9 && x <= high + 1e-9;

// What is asked of single responses; null: nothing.
function rolloutTest() {
  const { rollouts } = report;
  const tests = [];
  if (state.outcome in OUTCOMES) tests.push(r => rollouts.correct[r] === OUTCOMES[state.outcome]);
  if (state.model) tests.push(r => (rollouts.models[rollouts.model[r]] ?? "") === state.model);
  for (const name of ["reward", "length"]) if (state[name]) tests.push(r => within(rollouts[name][r], state[name]));
  const finding = report.findingOf.get(state.finding);
  if (finding?.kind === "rollouts") {
    const has = new Set(finding.rollouts);
    tests.push(r => has.has(r));
  }
  if (state.q) tests.push(r => textOf(r).includes(state.q.toLowerCase()));
  return tests.length ? r => tests.every(test => test(r)) : null;
}

// And of groups.
function groupTest() {
  const { groups } = report;
  const tests = [];
  if (state.groups in GROUP_KINDS) tests.push(GROUP_KINDS[state.groups]);
  if (state.file) tests.push(g => groups.files[groups.file[g]] === state.file);
  if (state.at) tests.push(g => String(groups.step[g]) === state.at);
  if (state.accuracy) tests.push(g => within(accuracyOf(g), state.accuracy));
  const finding = report.findingOf.get(state.finding);
  if (finding?.kind === "groups") {
    const has = new Set(finding.groups);
    tests.push(g => has.has(g));
  }
  return g => tests.every(test => test(g));
}

const placeIn = memo(order => {
  const place = new Int32Array(order.length);
  order.forEach((g, i) => (place[g] = i));
  return place;
});

// The place of each group where they are sorted as people count: by file, step and name.
const orderByName = memo(({ label, file, step }) => {
  const { compare } = new Intl.Collator("en", { numeric: true });
  const by = (x, y) => file[x] - file[y] || (step[x] ?? -1) - (step[y] ?? -1) || compare(label[x], label[y]);
  return label.map((_, g) => g).sort(by);
});
const placeByName = () => placeIn(orderByName(report.groups));

// The groups that fit, in the order asked for, and the responses that do (null: all of them). A
// search is of prompts and labels too: then all responses of the group fit.
let fitted = { key: null };
function fitting() {
  const key = JSON.stringify([...TEXTS, ...RANGES, "sort"].map(name => state[name] ?? null));
  if (fitted.key === key) return fitted;
  const [fits, test, query] = [groupTest(), rolloutTest(), (state.q ?? "").toLowerCase()];
  const asPrompt = g => query && `${groupName(g)} ${report.texts?.prompt[g] ?? ""}`.toLowerCase().includes(query);
  const rollouts = test ? new Set() : null;
  const groups = [];
  report.groups.label.forEach((_, g) => {
    if (!fits(g)) return;
    const its = test && report.groups.first[g] >= 0 ? rolloutsOf(g).filter(test) : [];
    its.forEach(r => rollouts.add(r));
    if (!test || its.length || asPrompt(g)) groups.push(g);
  });
  const by = SORTS[state.sort]?.[1] ?? SORTS.name[1];
  const place = placeByName();
  groups.sort((x, y) => by(x) - by(y) || place[x] - place[y]);
  fitted = { key, groups, rollouts };
  return fitted;
}

function change(changes) {
  Object.assign(state, changes, { rollout: null, token: null });
  go(fitting().groups.includes(state.group) ? {} : { group: Math.max(0, firstGroup()) });
}

function filterBar() {
  const { groups, rollouts } = report;
  const select = (name, label, options) => {
    if (options.length < 2) return null;
    const choices = options.map(([value, text]) => h("option", { value, selected: value === state[name] }, text));
    const onchange = event => change({ [name]: event.target.value });
    const properties = { "aria-label": label, id: `filter-${name}`, class: state[name] ? "set" : null, onchange };
    return h("select", properties, h("option", { value: "" }, label), choices);
  };
  const same = names => names.map(name => [name, onOneLine(name)]);
  const listed = report.findings.filter(({ kind }) => kind === "rollouts" || kind === "groups");
  const found = listed.map(finding => [finding.key, `${finding.title} (${findingCount(finding)})`]);
  const steps = [...new Set(groups.step)].filter(step => step !== null).map(step => [String(step), `step ${step}`]);
  const chips = RANGES.filter(name => state[name]).map(name => {
    const text = `${name} ${state[name].map(x => short(x)).join(" to ")} ×`;
    const onclick = () => change({ [name]: null });
    return h("button", { type: "button", class: "chip", "aria-label": `Filter by ${name}: let go`, onclick }, text);
  });
  const any = [...TEXTS, ...RANGES].some(name => state[name]);
  const clear = h("button", { type: "button", class: "chip", onclick: () => change(NO_FILTER) }, "clear all ×");
  return h(
    "section",
    { class: "filter", "aria-label": "Search and filter" },
    searchBox(),
    select("outcome", "Any outcome", same(Object.keys(OUTCOMES))),
    select(
      "groups",
      "Any group",
      Object.keys(GROUP_KINDS).map(kind => [kind, kind === "mixed" ? "mixed groups" : `all ${kind}`]),
    ),
    select("finding", "Any finding", [["", "Any finding"], ...found].slice(found.length ? 0 : 1)),
    select("model", "Any model", same(rollouts.models)),
    select("file", "Any file", same(groups.files)),
    select("at", "Any step", steps),
    chips,
    any ? clear : null,
  );
}

// How many responses or groups a finding is about, and how many of them the page holds.
function findingCount({ kind, count, rollouts }) {
  const some = kind === "rollouts" && rollouts.length < count;
  return some ? `${thousands(rollouts.length)} of ${thousands(count)} in this page` : thousands(count);
}

// What fits, in words.
function fittingLine() {
  const { groups, rollouts } = fitting();
  const all = report.groups.label.length;
  const of = groups.length < all ? `${thousands(groups.length)} of ${counted(all, "group")}` : counted(all, "group");
  if (!rollouts) return of;
  const inPage = report.groups.shown.includes(0) ? " of this page" : "";
  return `${counted(rollouts.size, "response")} in ${counted(groups.length, "group")}${inPage}`;
}
