// The page's data: blocks of base64 in the document, inflated and unpacked (ktae.report.page).

const FIXED_POINT = 512;
const report = {};

const blockOf = (name) => document.getElementById(`data-${name}`)?.textContent;

async function inflate(text) {
  const raw = atob(text);
  const bytes = new Uint8Array(raw.length);
  for (let i = 0; i < raw.length; i++) bytes[i] = raw.charCodeAt(i);
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate-raw"));
  return new Uint8Array(await new Response(stream).arrayBuffer());
}

const readJson = async (text) => JSON.parse(new TextDecoder().decode(await inflate(text)));

async function readVarints(text, n) {
  const bytes = await inflate(text);
  const numbers = new Uint32Array(n);
  for (let i = 0, at = 0; i < n; i++) {
    let shift = 0, byte;
    do {
      byte = bytes[at++];
      numbers[i] |= (byte & 127) << shift;
      shift += 7;
    } while (byte & 128);
  }
  return numbers;
}

// Log-probabilities or entropies; NaN where a rollout has none.
async function readFixedPoint(text) {
  const bytes = await inflate(text);
  const view = new DataView(bytes.buffer);
  return Float32Array.from({ length: bytes.length / 2 }, (_, i) => {
    const number = view.getInt16(2 * i, true);
    return number === -32768 ? NaN : number / FIXED_POINT;
  });
}

// First what the frame of the page needs, so that it can be drawn while the rest is unpacked.
async function readFrame() {
  Object.assign(report, await readJson(blockOf("meta")));
  const { groups, rollouts } = report;
  const n = groups.label.length;
  groups.first = new Int32Array(n).fill(-1);
  for (let g = 0, next = 0; g < n; g++) {
    if (groups.shown[g]) {
      groups.first[g] = next;
      next += groups.size[g];
    }
  }
  report.offsets = new Uint32Array(rollouts.length.length + 1);
  rollouts.length.forEach((length, r) => { report.offsets[r + 1] = report.offsets[r] + length; });
  report.groupOf = new Int32Array(rollouts.length.length);
  for (let g = 0; g < n; g++) {
    if (groups.first[g] >= 0) report.groupOf.fill(g, groups.first[g], groups.first[g] + groups.size[g]);
  }
  report.anyUnfinished = rollouts.finished.includes(0) && rollouts.finished.includes(1);
  // What was found, by its key and by rollout: [{ finding, token, why }].
  report.findingOf = new Map(report.findings.map((finding) => [finding.key, finding]));
  report.placesOf = new Map();
  for (const finding of report.findings) {
    finding.rollouts.forEach((rollout, i) => {
      const place = { finding, token: finding.tokens[i] < 0 ? null : finding.tokens[i], why: finding.why[i] ?? "" };
      report.placesOf.set(rollout, [...(report.placesOf.get(rollout) ?? []), place]);
    });
  }
}

async function readRest() {
  const n = report.offsets[report.offsets.length - 1];
  [report.vocabulary, report.texts, report.tokens] = await Promise.all([
    readJson(blockOf("vocabulary")), readJson(blockOf("texts")), readVarints(blockOf("tokens"), n),
  ]);
  if (blockOf("credit")) {
    const bytes = new Int8Array((await inflate(blockOf("credit"))).buffer);
    report.credit = Float32Array.from(bytes, (x) => (x / 127) * report.largest_credit);
  }
  for (const name of report.signals) report[name] = await readFixedPoint(blockOf(name));
}

// Whether a rollout is left out by the switch "finished only".
const leftOut = (rollout) => state.finished && report.rollouts.finished[rollout] === 0;
const isMixed = (g) => report.groups.right[g] > 0 && report.groups.right[g] < report.groups.known[g];

// Which tokens of a rollout count: an array of 0 and 1, or null where all do.
function maskOf(rollout) {
  const edges = report.rollouts.holes[rollout];
  if (!edges) return null;
  const mask = new Uint8Array(report.rollouts.length[rollout]).fill(1);
  for (let i = 0; i < edges.length; i += 2) mask.fill(0, edges[i], edges[i + 1]);
  return mask;
}

const idsOf = (rollout) => report.tokens.subarray(report.offsets[rollout], report.offsets[rollout + 1]);
