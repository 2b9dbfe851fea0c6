// Search and filter: which responses and groups fit what the reader asks for, and the bar to ask with.

const SORTS = {
  name: ["name", () => 0],
  evidence: ["evidence", g => report.groups.byEvidence[g]],
  accuracy: ["accuracy", g => accuracyOf(g) ?? Infinity],
  length: ["length", g => -report.groups.length[g]],
};
const GROUP_KINDS = {
  mixed: ["mixed groups", isMixed],
  correct: ["all correct", g => accuracyOf(g) === 1],
  incorrect: ["all incorrect", g => accuracyOf(g) === 0],
};
const accuracyOf = g => (report.groups.known[g] ? report.groups.n_correct[g] / report.groups.known[g] : null);

const textCache = new Map(); // response -> its text in small letters, from the first search on
function textOf(rollout) {
  if (!textCache.has(rollout)) textCache.set(rollout, spelled(idsOf(rollout)).toLowerCase());
  return textCache.get(rollout);
}

const within = (x, [low, high]) => x !== null && x >= low - 1e-9 && x <= high + 1e-9;
const isFound = r => report.placesOf.get(r)?.some(({ finding }) => finding.key === state.finding);

// What is asked of single responses.
function rolloutTests() {
  const { rollouts } = report;
  const query = state.q.toLowerCase();
  return [
    state.outcome in OUTCOMES && (r => rollouts.correct[r] === OUTCOMES[state.outcome]),
    state.model && (r => modelOf(r) === state.model),
    state.reward && (r => within(rollouts.reward[r], state.reward)),
    state.length && (r => within(rollouts.length[r], state.length)),
    report.findingOf.get(state.finding)?.count > 0 && isFound,
    query && report.tokens && (r => textOf(r).includes(query)),
  ].filter(Boolean);
}

// And of groups.
function groupTests() {
  const { groups } = report;
  return [
    GROUP_KINDS[state.groups]?.[1],
    state.file && (g => groups.files[groups.file[g]] === state.file),
    state.at && (g => String(groups.step[g]) === state.at),
    state.accuracy && (g => within(accuracyOf(g), state.accuracy)),
  ].filter(Boolean);
}

// The groups that fit, in the order asked for, and the responses that do (null: all of them). A
// search is of prompts and labels too: then all responses of the group fit.
let fitted = { key: null };
function fitting() {
  const key = JSON.stringify([...TEXTS, ...RANGES, "sort"].map(name => state[name] ?? null));
  if (fitted.key === key) return fitted;
  const [ofGroup, ofRollout, query] = [groupTests(), rolloutTests(), state.q.toLowerCase()];
  const isNamed = g => query && `${groupName(g)} ${report.texts?.prompt[g] ?? ""}`.toLowerCase().includes(query);
  const rollouts = ofRollout.length ? new Set() : null;
  const groups = report.groups.label.flatMap((_, g) => {
    if (!ofGroup.every(test => test(g))) return [];
    if (!rollouts) return [g];
    const its = report.groups.first[g] < 0 ? [] : rolloutsOf(g).filter(r => ofRollout.every(test => test(r)));
    its.forEach(r => rollouts.add(r));
    return its.length || isNamed(g) ? [g] : [];
  });
  const by = SORTS[state.sort][1];
  groups.sort((x, y) => by(x) - by(y) || report.groups.byName[x] - report.groups.byName[y]);
  fitted = { key, groups, rollouts };
  return fitted;
}

// Of the groups that fit, the one with a finding that has a place in it, or else most evidence.
function firstGroup() {
  const { groups, findings } = report;
  const fits = new Set(fitting().groups.filter(g => groups.first[g] >= 0));
  const told = findings
    .filter(({ places }) => places.some(([, , why]) => why))
    .map(finding => finding.groups.find(g => fits.has(g) && isMixed(g)));
  return told.find(g => g !== undefined) ?? groups.order.find(g => fits.has(g)) ?? 0;
}

function change(changes) {
  Object.assign(state, changes, { rollout: null, token: null });
  go(fitting().groups.includes(state.group) ? {} : { group: firstGroup() });
}

function filterBar() {
  const { groups, rollouts, findings } = report;
  const select = (name, label, options) =>
    options.length > 0 &&
    el`<select aria-label=${label} id="filter-${name}" class=${state[name] && "set"}
        @change=${event => change({ [name]: event.target.value })}>
      <option value="">${label}</option>
      ${options.map(([value, text]) => el`<option value=${value} selected=${value === state[name]}>${text}</option>`)}
    </select>`;
  const several = names => (names.length > 1 ? names.map(name => [name, onOneLine(name)]) : []);
  const kinds = Object.entries(GROUP_KINDS).map(([kind, [text]]) => [kind, text]);
  const listed = findings.filter(({ count }) => count > 0);
  const found = listed.map(finding => [finding.key, `${finding.title} (${findingCount(finding)})`]);
  const steps = several([...new Set(groups.step)].filter(step => step !== null).map(String));
  const chip = (text, changes) =>
    el`<button type="button" class="chip" title="Let go" @click=${() => change(changes)}>${text} ×</button>`;
  const ranges = RANGES.filter(name => state[name]);
  return el`<section class="filter" aria-label="Search and filter">
    ${searchBox()}
    ${select("outcome", "Any outcome", several(Object.keys(OUTCOMES)))}
    ${select("groups", "Any group", kinds)}
    ${select("finding", "Any finding", found)}
    ${select("model", "Any model", several(rollouts.models))}
    ${select("file", "Any file", several(groups.files))}
    ${select("at", "Any step", steps)}
    ${ranges.map(name => chip(`${name} ${state[name].map(short).join(" to ")}`, { [name]: null }))}
    ${[...TEXTS, ...RANGES].some(name => state[name]) && chip("clear all", NO_FILTER)}
  </section>`;
}

// How many responses or groups a finding is about, and how many of them the page holds.
function findingCount({ count, rollouts }) {
  const of = rollouts.length < count ? `${thousands(rollouts.length)} of ` : "";
  return `${of}${thousands(count)}${of && " in this page"}`;
}

// What fits, in words.
function fittingLine() {
  const { groups, rollouts } = fitting();
  const all = report.groups.label.length;
  if (!rollouts) return (groups.length < all ? `${thousands(groups.length)} of ` : "") + counted(all, "group");
  const inPage = report.groups.shown.includes(0) ? " of this page" : "";
  return `${counted(rollouts.size, "response")} in ${counted(groups.length, "group")}${inPage}`;
}

let waiting = null;
function searchBox() {
  const name = "Search responses, prompts and groups";
  const apply = () => {
    clearTimeout(waiting);
    change({ q: box.value });
    backToBox();
  };
  const onkeydown = event => {
    if (event.key !== "Enter") return;
    if (box.value !== state.q) return apply();
    goToHit(hitAt + (event.shiftKey ? -1 : 1));
    backToBox();
  };
  const oninput = () => {
    clearTimeout(waiting);
    waiting = setTimeout(apply, 300);
  };
  const box = el`<input type="search" class="search" id="search" placeholder=${name} aria-label=${name} value=${state.q}
    @keydown=${onkeydown} @input=${oninput}>`;
  const step = (by, sign, label) =>
    el`<button type="button" aria-label=${label} @click=${() => goToHit(hitAt + by)}>${sign}</button>`;
  return el`<span class="searching">
    ${box}
    ${state.q && [step(-1, "↑", "Previous hit"), step(1, "↓", "Next hit")]}
    ${state.q && el`<span id="hits" class="quiet" aria-live="polite"></span>`}
  </span>`;
}

// After the view is drawn anew, on with typing.
function backToBox() {
  const box = document.getElementById("search");
  box?.focus({ preventScroll: true });
  box?.setSelectionRange(box.value.length, box.value.length);
}

// Where the search's words are in a response: [[first run, last run]].
function hitsIn(rollout) {
  const query = state.q.toLowerCase();
  if (!query || !textOf(rollout).includes(query)) return [];
  const [text, hits] = [textOf(rollout), []];
  const runs = runsIn(rollout);
  let [run, end] = [0, runs[0].text.length];
  const runAt = place => {
    while (end <= place) end += runs[++run].text.length;
    return run;
  };
  for (let at = text.indexOf(query); at >= 0; at = text.indexOf(query, at + query.length)) {
    hits.push([runAt(at), runAt(at + query.length - 1)]);
  }
  return hits;
}

// Open and mark a hit of the group; behind the last comes the first of the next group.
let hitAt = 0;
function goToHit(i) {
  const hits = [...cards.keys()].flatMap(r => hitsIn(r).map(([run]) => [r, runsIn(r)[run].first]));
  if (i >= hits.length && hits.length && neighbour(state.group, 1) !== state.group) return toNeighbour(1);
  hitAt = hits.length ? (i + hits.length) % hits.length : 0;
  const place = `${thousands(hitAt + 1)} of ${counted(hits.length, "hit")} in this group`;
  document.getElementById("hits").textContent = hits.length ? place : "no hit in these responses";
  if (hits.length) focusToken(...hits[hitAt]);
}
