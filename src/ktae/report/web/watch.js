// Follows a run: asks the server what is new, and shows one step at a time.
//
// Of each step come its curves and strongest tokens as soon as it is read. Its rollouts come when it
// is shown, and how far to believe them when the reader has opened that part. Texts of the run
// arrive as JSON and become text nodes, as in a page that is a file.

const REST_AFTER = 1500; // milliseconds in sight
const AGAIN_AFTER = 1000; // where the server does not answer
const known = { session: null, number: 0, order: [], steps: new Map(), logged: new Map(), troubles: {} };
let shown = null; // the number of the step on the page
let wanted = null; // that of the step that is asked for
let held = false; // whether a pointer is down: then nothing is drawn under it
let restTimer = null;

const tell = (text, lost = false) => {
  const line = document.getElementById("watch-state");
  if (line.textContent !== text) line.textContent = text;
  line.className = lost ? "lost" : "";
};

async function ask(path) {
  const answer = await fetch(path, { cache: "no-store" });
  if (!answer.ok) throw new Error((await answer.text()).slice(0, 500) || `status ${answer.status}`);
  return answer.json();
}

async function follow() {
  for (;;) {
    try {
      take(await ask(known.session === null ? "changes" : `changes?after=${known.number}`));
      await show();
    } catch (error) {
      const lost = error instanceof TypeError; // as fetch says it
      const why = onOneLine(error.message);
      tell(lost ? `The server does not answer: has it been stopped? (${why})` : why, true);
      await new Promise((resolve) => setTimeout(resolve, AGAIN_AFTER));
    }
  }
}

function take(news) {
  if (known.session !== null && known.session !== news.session) location.reload();
  const { session, number, order, troubles } = news;
  Object.assign(known, { session, number, order, troubles });
  for (const step of news.steps) known.steps.set(step.number, step);
  for (const old of known.steps.keys()) if (!order.includes(old)) known.steps.delete(old);
  if (news.anew) known.logged.clear();
  for (const [step, values] of Object.entries(news.logged)) known.logged.set(Number(step), values);
}

// Show the step that is asked for: the newest, or the one that the reader stays with.
async function show() {
  const { order, steps } = known;
  const named = root.dataset.ready ? state.at : new URLSearchParams(location.hash.slice(1)).get("at");
  const kept = named === null ? undefined : order.find((number) => steps.get(number).name === named);
  wanted = kept ?? order[order.length - 1] ?? null;
  if (wanted !== null && wanted !== shown) await swapIn(wanted, false);
  fillWatch();
  if (shown === null) return;
  report.training = trainingOf();
  if (state.view === "training" && !held) draw();
}

// Another step's data in the place of those on the page.
async function swapIn(number, whole) {
  clearTimeout(restTimer);
  const blocks = await ask(`steps/${number}${whole ? "?whole=1" : ""}`);
  const fresh = await readFrame((name) => blocks[name]);
  await readRest(fresh, (name) => blocks[name]);
  if (number !== wanted) return;
  const again = number === shown && String(fresh.groups.shown) === String(report.groups.shown);
  for (const name of Object.keys(report)) delete report[name];
  Object.assign(report, fresh, { pending: !whole });
  report.vocabulary.own = report.vocabulary.id.length;
  report.training = trainingOf();
  groupCache.clear();
  lastMask = { rollout: -1, mask: null };
  const first = shown === null, other = number !== shown;
  shown = number;
  drawNotes();
  fillControls();
  if (first) setUpControls();
  if (first) readState();
  else if (other) Object.assign(state, { group: firstGroup(), rollout: null, token: null });
  if (again && state.view !== "groups") drawBelieve();
  else if (!(again && held)) draw();
  if (first || other) go({}, { quiet: true });
  root.dataset.ready = "true";
  root.dataset.step = String(number);
  root.dataset.whole = String(whole);
  plan();
}

// Ask for the rest, which costs the server seconds, where the reader sees it.
function plan() {
  clearTimeout(restTimer);
  const number = shown;
  if (report.pending && (believeView.open || state.view === "groups")) restTimer = setTimeout(() => rest(number), REST_AFTER);
}

async function rest(number) {
  try {
    if (number === wanted) await swapIn(number, true);
  } catch (error) {
    if (number === shown) tell(`Not computed: ${onOneLine(error.message)}`, true);
  }
}

// The curves and the strongest tokens of all steps, as drawTraining takes them.
function trainingOf() {
  const rows = new Map();
  for (const number of known.order) for (const row of known.steps.get(number).rows) rows.set(row.step, row);
  const steps = [...new Set([...rows.keys(), ...known.logged.keys()])].sort((x, y) => x - y);
  const all = steps.map((step) => ({ ...rows.get(step)?.values, ...known.logged.get(step) }));
  const names = [...new Set(all.flatMap((values) => Object.keys(values)))];
  const series = names.map((name) => ({ name, values: all.map((values) => values[name] ?? null) }));
  return { steps, series: series.filter(({ values }) => values.some((x) => x !== null)), of_tokens: tokensOf(steps, rows) };
}

const MOST_TOKENS = 300; // as many as a report follows

function tokensOf(steps, rows) {
  const totals = new Map(); // by id: the sum of the impacts that came
  for (const row of rows.values()) for (const [id, text, impact] of row.tokens) {
    const total = totals.get(id) ?? { id, text, impact: 0 };
    total.impact += impact;
    totals.set(id, total);
  }
  const strongest = [...totals.values()].sort((x, y) => Math.abs(y.impact) - Math.abs(x.impact)).slice(0, MOST_TOKENS);
  const place = new Map(strongest.map(({ id }, i) => [id, i]));
  const [impact, credit] = [0, 1].map(() => strongest.map(() => steps.map(() => null)));
  steps.forEach((step, column) => {
    for (const [id, , of, mean] of rows.get(step)?.tokens ?? []) {
      if (place.has(id)) [impact[place.get(id)][column], credit[place.get(id)][column]] = [of, mean];
    }
  });
  return { tokens: strongest.map(rankOf), impact, credit };
}

// A token's place in the vocabulary of the step on the page; one that it lacks is added behind.
function rankOf({ id, text }) {
  const { vocabulary } = report;
  vocabulary.rank ??= new Map(vocabulary.id.map((one, rank) => [one, rank]));
  if (!vocabulary.rank.has(id)) {
    vocabulary.rank.set(id, vocabulary.id.length);
    vocabulary.id.push(id);
    vocabulary.text.push(text);
  }
  return vocabulary.rank.get(id);
}

// A step by its number; by its file, too, where that is not enough.
function nameOf({ name, rows }) {
  const numbers = rows.map((row) => row.step), first = numbers[0], last = numbers[numbers.length - 1];
  const alone = [...known.steps.values()].filter((other) => other.rows[0].step === first).length === 1;
  return (first === last ? `${first}` : `${first} to ${last}`) + (alone ? "" : `, ${onOneLine(name)}`);
}

function fillWatch() {
  const { order, steps, troubles } = known;
  const select = document.getElementById("watched");
  if (document.activeElement !== select || !select.options.length) {
    select.replaceChildren(...[...order].reverse().map((number) => h("option", { value: String(number) }, nameOf(steps.get(number)))));
  }
  select.value = String(shown);
  document.getElementById("follow").checked = !root.dataset.ready || state.at === null;
  const bad = Object.entries(troubles).map(([name, why]) => ` Not read yet: ${onOneLine(name)}: ${onOneLine(why)}`);
  const n = order.length;
  const newest = n ? `${thousands(n)} ${n > 1 ? "steps" : "step"} read, the newest is ${nameOf(steps.get(order[n - 1]))}.` : "Waiting for the first step.";
  tell(newest + bad.slice(0, 2).join(""));
}

// A reader who goes to a group, a rollout or a token stays with the step.
watching.keep = (changes) => {
  setTimeout(plan); // once the view has changed
  const stays = ["group", "rollout", "id"].some((name) => (changes[name] ?? null) !== null && changes[name] !== state[name]);
  if (!stays || state.at !== null || "at" in changes || changes.view === "training" || (state.view === "training" && !("view" in changes))) return changes;
  const at = known.steps.get(shown)?.name ?? null;
  document.getElementById("follow").checked = at === null;
  return { ...changes, at };
};

// Stay with a step, or follow the newest again.
function stay(at) {
  state.at = at;
  go({}, { quiet: true });
  show().catch((error) => tell(onOneLine(error.message), true));
}

believeView.open = false; // what a run is watched for comes first
document.addEventListener("toggle", () => setTimeout(plan), true); // after what it sets
document.getElementById("watched").addEventListener("change", (event) => stay(known.steps.get(Number(event.target.value))?.name ?? null));
document.getElementById("follow").addEventListener("change", (event) => stay(event.target.checked ? null : known.steps.get(shown)?.name ?? null));
addEventListener("pointerdown", () => { held = true; });
for (const name of ["pointerup", "pointercancel"]) addEventListener(name, () => { held = false; });
// A link to a rollout is a place to stay at, too. Links are followed in main.js, which runs first.
document.addEventListener("click", (event) => {
  const link = event.target.closest?.('a[href*="rollout="]');
  if (link && state.at === null && shown !== null) stay(known.steps.get(shown).name);
});
addEventListener("hashchange", () => { if (shown !== null) show().catch((error) => tell(onOneLine(error.message), true)); });
follow();
