// The page's data: blocks of base64 in the document, inflated and unpacked (ktae.report.blocks).

const FIXED_POINT = 512;
const PAGE_VERSION = 2;
const report = {};

const blockOf = name => document.getElementById(`data-${name}`)?.textContent;

async function inflate(text) {
  const bytes = Uint8Array.from(atob(text), c => c.charCodeAt(0));
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate-raw"));
  return new Uint8Array(await new Response(stream).arrayBuffer());
}

const readJson = async name => JSON.parse(new TextDecoder().decode(await inflate(blockOf(name))));

async function readVarints(name, n) {
  const bytes = await inflate(blockOf(name));
  const numbers = new Uint32Array(n);
  for (let i = 0, at = 0; i < n; i++) {
    let shift = 0;
    let byte;
    do {
      byte = bytes[at++];
      numbers[i] |= (byte & 127) << shift;
      shift += 7;
    } while (byte & 128);
  }
  return numbers;
}

// Log-probabilities or entropies; NaN where a response has none.
async function readFixedPoint(name) {
  const bytes = await inflate(blockOf(name));
  const view = new DataView(bytes.buffer);
  return Float32Array.from({ length: bytes.length / 2 }, (_, i) => {
    const number = view.getInt16(2 * i, true);
    return number === -32768 ? NaN : number / FIXED_POINT;
  });
}

async function readCredit(largest) {
  const bytes = new Int8Array((await inflate(blockOf("credit"))).buffer);
  return Float32Array.from(bytes, x => (x / 127) * largest);
}

// First what the frame of the page needs, so that it can be drawn while the rest is unpacked.
async function readFrame() {
  Object.assign(report, await readJson("meta"));
  if (report.version !== PAGE_VERSION) throw new Error(`its data are of version ${report.version}`);
  const { groups, rollouts } = report;
  const n = groups.label.length;
  groups.first = new Int32Array(n).fill(-1);
  report.groupOf = new Int32Array(rollouts.length.length);
  for (let g = 0, next = 0; g < n; g++) {
    if (!groups.shown[g]) continue;
    groups.first[g] = next;
    next += groups.size[g];
    report.groupOf.fill(g, groups.first[g], next);
  }
  report.offsets = new Uint32Array(rollouts.length.length + 1);
  rollouts.length.forEach((length, r) => (report.offsets[r + 1] = report.offsets[r] + length));
  // What was found, by its key and by response: [{ finding, token, why }].
  report.findingOf = new Map(report.findings.map(finding => [finding.key, finding]));
  report.placesOf = new Map();
  for (const finding of report.findings) {
    finding.rollouts.forEach((rollout, i) => {
      const token = finding.tokens[i] < 0 ? null : finding.tokens[i];
      const place = { finding, token, why: finding.why[i] ?? "" };
      report.placesOf.set(rollout, [...(report.placesOf.get(rollout) ?? []), place]);
    });
  }
}

async function readRest() {
  const n = report.offsets.at(-1);
  [report.vocabulary, report.texts, report.turns] = await Promise.all(["vocabulary", "texts", "turns"].map(readJson));
  report.tokens = await readVarints("tokens", n);
  report.credit.values = await readCredit(report.credit.largest);
  report.units = await Promise.all(report.unit_names.map((_, i) => readVarints(`unit-${i}`, n)));
  for (const name of report.signals) report[name] = await readFixedPoint(name);
}

const isMixed = g => report.groups.n_correct[g] > 0 && report.groups.n_correct[g] < report.groups.known[g];
const idsOf = rollout => report.tokens.subarray(report.offsets[rollout], report.offsets[rollout + 1]);
const rolloutsOf = g => Array.from({ length: report.groups.size[g] }, (_, i) => report.groups.first[g] + i);
const numberOf = rollout => rollout - report.groups.first[report.groupOf[rollout]];

// Whether a token of a response is the policy's: masked ones count nowhere.
function isCounted(rollout, t) {
  const edges = report.rollouts.holes[rollout] ?? [];
  for (let i = 0; i < edges.length; i += 2) if (t >= edges[i] && t < edges[i + 1]) return false;
  return true;
}

const creditAt = (rollout, t) => report.credit.values[report.offsets[rollout] + t];

// The contingency tables of the units that end at a token: [{ unit, a, n_correct, ... }].
function unitsAt(rollout, t) {
  return report.units.flatMap(cells => {
    const cell = cells[report.offsets[rollout] + t];
    if (!cell) return [];
    const [unit, a, nCorrect, b, nIncorrect, p, beyond] = report.cells[cell - 1];
    return [{ name: report.unit_names[unit], a, nCorrect, b, nIncorrect, p, beyond: beyond === 1 }];
  });
}

// The largest |credit| in a group, at which a shade is full; of nothing, 1.
function largestIn(g) {
  const { first, size } = report.groups;
  const credit = report.credit.values;
  let most = 0;
  for (let at = report.offsets[first[g]]; at < report.offsets[first[g] + size[g]]; at++) {
    most = Math.max(most, Math.abs(credit[at]));
  }
  return most || 1;
}
