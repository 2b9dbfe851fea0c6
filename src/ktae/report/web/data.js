// The page's data: blocks of base64 in the document, inflated and unpacked (ktae.report.data).

const PAGE_VERSION = 3;
const report = {};

async function inflate(name) {
  const bytes = Uint8Array.from(atob(document.getElementById(`data-${name}`).textContent), c => c.charCodeAt(0));
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate-raw"));
  return new Uint8Array(await new Response(stream).arrayBuffer());
}

const readJson = async name => JSON.parse(new TextDecoder().decode(await inflate(name)));

// The lowest byte of all numbers, then the next one of all, and so on.
async function readIntegers(name, n) {
  const bytes = await inflate(name);
  const numbers = new Uint32Array(n);
  for (let byte = 0; byte < 4; byte++) {
    for (let i = 0; i < n; i++) numbers[i] |= bytes[byte * n + i] << (8 * byte);
  }
  return numbers;
}

async function readCredit(largest) {
  return Float32Array.from(new Int8Array((await inflate("credit")).buffer), x => (x / 127) * largest);
}

// First what the frame of the page needs, so that it can be drawn while the rest is unpacked.
async function readFrame() {
  Object.assign(report, await readJson("meta"));
  if (report.version !== PAGE_VERSION) throw new Error(`its data are of version ${report.version}`);
  const { groups, rollouts } = report;
  const lineOf = ([name, steps, values]) => ({ name, steps, values });
  report.charts = Object.entries(report.charts).map(([name, lines]) => ({ name, lines: lines.map(lineOf) }));
  report.offsets = new Uint32Array(rollouts.length.length + 1);
  rollouts.length.forEach((length, r) => (report.offsets[r + 1] = report.offsets[r] + length));
  // The first response of each group that is in the page, and the group of each response.
  groups.first = new Int32Array(groups.label.length).fill(-1);
  report.groupOf = new Int32Array(rollouts.length.length);
  let next = 0;
  groups.shown.forEach((isShown, g) => {
    if (!isShown) return;
    groups.first[g] = next;
    next += groups.size[g];
    report.groupOf.fill(g, groups.first[g], next);
  });
  // The place of each group by most evidence, and as people count: by file, step and name.
  const { compare } = new Intl.Collator("en", { numeric: true });
  const { file, step, label } = groups;
  const by = (x, y) => file[x] - file[y] || (step[x] ?? -1) - (step[y] ?? -1) || compare(label[x], label[y]);
  groups.byEvidence = placesIn(groups.order);
  groups.byName = placesIn(label.map((_, g) => g).sort(by));
  // What was found, by its key and by response: [{ finding, token, why }].
  report.findingOf = new Map(report.findings.map(finding => [finding.key, finding]));
  report.placesOf = new Map();
  for (const finding of report.findings) {
    for (const [rollout, token, why] of finding.places) {
      if (!report.placesOf.has(rollout)) report.placesOf.set(rollout, []);
      report.placesOf.get(rollout).push({ finding, token: token < 0 ? null : token, why });
    }
    finding.rollouts = finding.places.map(([rollout]) => rollout);
    finding.groups = [...new Set(finding.rollouts.map(rollout => report.groupOf[rollout]))];
  }
}

function placesIn(order) {
  const places = new Int32Array(order.length);
  order.forEach((x, i) => (places[x] = i));
  return places;
}

async function readRest() {
  const n = report.offsets.at(-1);
  [report.vocabulary, report.texts] = await Promise.all(["vocabulary", "texts"].map(readJson));
  report.tokens = await readIntegers("tokens", n);
  report.credit = await readCredit(report.largest);
  report.units = await Promise.all(report.unit_names.map((_, i) => readIntegers(`unit-${i}`, n)));
}

const isMixed = g => report.groups.n_correct[g] > 0 && report.groups.n_correct[g] < report.groups.known[g];
const idsOf = rollout => report.tokens.subarray(report.offsets[rollout], report.offsets[rollout + 1]);
const rolloutsOf = g => Array.from({ length: report.groups.size[g] }, (_, i) => report.groups.first[g] + i);
const numberOf = rollout => rollout - report.groups.first[report.groupOf[rollout]];
const OUTCOMES = { correct: 1, incorrect: 0, unknown: null };
const outcomeOf = rollout => ({ 1: "correct", 0: "incorrect" })[report.rollouts.correct[rollout]] ?? "unknown";
const rewardOf = r => `reward ${report.rollouts.reward[r] === null ? "none" : plain(report.rollouts.reward[r], 2)}`;
const modelOf = rollout => report.rollouts.models[report.rollouts.model[rollout]] ?? "";

// Whether a token of a response is the policy's: masked ones count nowhere.
function isCounted(rollout, t) {
  const segments = report.rollouts.segments[rollout] ?? [];
  return !segments.some(([kind, begin, end]) => kind === "others" && begin <= t && t < end);
}

const creditAt = (rollout, t) => report.credit[report.offsets[rollout] + t];

// The contingency tables of the units that end at a token: [{ name, a, nCorrect, b, nIncorrect, p, beyond }].
function unitsAt(rollout, t) {
  return report.units.flatMap(cells => {
    const cell = cells[report.offsets[rollout] + t];
    if (!cell) return [];
    const [unit, a, nCorrect, b, nIncorrect, p, beyond] = report.cells[cell - 1];
    return [{ name: report.unit_names[unit], a, nCorrect, b, nIncorrect, p, beyond: beyond === 1 }];
  });
}

// The largest |credit| in a group, at which a shade is full; of nothing, 1.
const largest = new Map();
function largestIn(g) {
  if (!largest.has(g)) {
    const { first, size } = report.groups;
    const ends = [first[g], first[g] + size[g]].map(rollout => report.offsets[rollout]);
    const most = report.credit.subarray(...ends).reduce((top, x) => Math.max(top, Math.abs(x)), 0);
    largest.set(g, most || 1);
  }
  return largest.get(g);
}
