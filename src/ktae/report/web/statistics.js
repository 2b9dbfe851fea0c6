// The estimator's formulas, as src/ktae/statistics.py has them, so that presets can be switched here.
// The tests hold every number to ktae.credit_table.
// A preset's settings are those of ktae.statistics.Formula, and the token ids that do not count
// (ignored) or only get no credit (silent).

function fisherPValue(a, b, nTrue, nFalse, point) {
  const k = a + b;
  let total = 1, asExtreme = 1, leftOut = 0, weight = 1;
  const count = () => {
    total += weight;
    if (weight <= 1 + 1e-7) asExtreme += weight;
    else leftOut++;
  };
  for (let x = a; x < Math.min(k, nTrue); x++) {
    weight *= ((nTrue - x) * (k - x)) / ((x + 1) * (nFalse - k + x + 1));
    count();
  }
  weight = 1;
  for (let x = a; x > Math.max(0, k - nFalse); x--) {
    weight *= (x * (nFalse - k + x)) / ((nTrue - x + 1) * (k - x + 1));
    count();
  }
  if (point) return 1 / total;
  return leftOut === 0 ? 1 : asExtreme / total;
}

// The same in float32, as ktae.statistics.single_precision_p_value has it.
const logFactorials = [0];
function singlePrecisionPValue(a, b, nTrue, nFalse) {
  const k = a + b, f = Math.fround;
  for (let i = logFactorials.length; i <= nTrue + nFalse; i++) logFactorials.push(logFactorials[i - 1] + Math.log(i));
  const binomial = (n, m) => f(f(f(logFactorials[n]) - f(logFactorials[m])) - f(logFactorials[n - m]));
  const probability = (x) => f(Math.exp(f(f(binomial(nTrue, x) + binomial(nFalse, k - x)) - binomial(nTrue + nFalse, k))));
  let total = 0;
  for (let x = Math.max(0, k - nFalse); x <= Math.min(k, nTrue); x++) if (probability(x) <= probability(a)) total += probability(x);
  return f(total);
}

function entropyBits(x, y) {
  if (x === 0 || y === 0) return 0;
  const p = x / (x + y), q = y / (x + y);
  return -p * Math.log2(p) - q * Math.log2(q);
}

function informationGain(a, b, nTrue, nFalse) {
  const n = nTrue + nFalse;
  const withToken = ((a + b) / n) * entropyBits(a, b);
  const without = ((n - a - b) / n) * entropyBits(nTrue - a, nFalse - b);
  return Math.max(0, entropyBits(nTrue, nFalse) - withToken - without);
}

const saturate = (tf, relative, s) =>
  ((s.k1 + 1) * tf) / (s.k1 * (1 - s.b_len + s.b_len * relative) + tf);

// What no |credit| in a group of n rollouts exceeds.
const largestCredit = (s, n) => s.credit_scale * (s.z ? Math.sqrt(Math.max(1, n - 1)) : 0.5);

// The same for the largest group on the page.
const largestOnPage = (s) => largestCredit(s, report.groups.size.reduce((x, y) => Math.max(x, y), 2));

// Permutation z-score of the verdicts of the m rollouts that have the token.
function presenceZ(a, m, nTrue, n) {
  if (m === n) return 0;
  const mean = nTrue / n;
  return (a - m * mean) / Math.sqrt(((m * (n - m)) / (n - 1)) * mean * (1 - mean));
}

// Strong evidence keeps its weight, weak evidence fades; see ktae.statistics.sharpened.
function sharpened(z, m, nTrue, n) {
  if (m === n) return 0;
  const mean = nTrue / n;
  let cube = z ** 3;
  if (n > 2) cube -= ((1 - 2 * mean) / Math.sqrt(mean * (1 - mean))) * (n - 2 * m) * Math.sqrt(n - 1) / ((n - 2) * Math.sqrt(m * (n - m)));
  return cube / (n - 1);
}

// One token of a mixed group: every number from the counts to the credit.
function explain(counts, group, s) {
  const { a, b, inTrue, inFalse } = counts;
  const { nTrue, nFalse, lengthTrue, lengthFalse } = group;
  const p = s.single ? singlePrecisionPValue(a, b, nTrue, nFalse) : fisherPValue(a, b, nTrue, nFalse, s.point);
  const fisher = p === 1 ? 0 : Math.exp(-2 * p);
  const gain = informationGain(a, b, nTrue, nFalse);
  if (s.z) {
    const z = presenceZ(a, a + b, nTrue, nTrue + nFalse);
    const value = s.sharp ? sharpened(z, a + b, nTrue, nTrue + nFalse) : z;
    return { a, b, p, fisher, gain, z, direction: value, value, credit: s.credit_scale * value };
  }
  const mean = (lengthTrue + lengthFalse) / (s.mean_lengths ? nTrue + nFalse : 2);
  const tfTrue = inTrue / lengthTrue, tfFalse = inFalse / lengthFalse;
  const satTrue = saturate(tfTrue, lengthTrue / (s.mean_lengths ? nTrue : 1) / mean, s);
  const satFalse = saturate(tfFalse, lengthFalse / (s.mean_lengths ? nFalse : 1) / mean, s);
  const effect = Math.asin(Math.sqrt(a / nTrue)) - Math.asin(Math.sqrt(b / nFalse));
  const contrast = satTrue / (satFalse + s.eps) - satFalse / (satTrue + s.eps);
  const direction = effect + s.h3 * contrast;
  const strength = s.h1 * fisher + s.h2 * gain;
  const value = strength * direction * s.value_scale;
  const credit = s.credit_scale * 0.5 * Math.tanh(0.5 * value);
  return { a, b, p, fisher, gain, tfTrue, tfFalse, effect, contrast, direction, strength, value, credit };
}

// The largest p of a group that is significant at a false discovery rate of `level` (Benjamini and
// Hochberg 1995) over the group's distinct units; 0 where none is.
function discoveryBound(group, level) {
  if (group.bound !== undefined) return group.bound;
  const sorted = [...group.counts.keys()].map(group.pOf).sort((x, y) => x - y);
  group.bound = 0;
  sorted.forEach((p, i) => { if (p <= (level * (i + 1)) / sorted.length) group.bound = p; });
  return group.bound;
}

const UNIT_SIZE = { token: 1, bigram: 2, trigram: 3 };

// The key of the unit that ends at each token of a rollout: a token's own number, or a text of
// several; null where the token does not count. What does not count is passed over.
function unitKeys(rollout, unit, ignored) {
  const ids = idsOf(rollout), mask = maskOf(rollout), size = UNIT_SIZE[unit];
  const keys = new Array(ids.length).fill(null), last = [];
  for (let t = 0; t < ids.length; t++) {
    if ((mask && !mask[t]) || (ignored.size && ignored.has(report.vocabulary.id[ids[t]]))) continue;
    last.push(ids[t]);
    if (last.length > size) last.shift();
    keys[t] = size === 1 ? ids[t] : [...new Array(size - last.length).fill(-1), ...last].join();
  }
  return keys;
}

// Counts of a group on the page: totals, and a table by unit. `distinct` and `distinctTrue`,
// `distinctFalse` count identical rollouts once: they share a verdict, so only the first of them is
// evidence. Where their verdicts differ, none is (ktae.validity.repeats).
function countGroup(g, settings, unit) {
  const { groups, rollouts } = report;
  const first = groups.first[g], ignored = new Set(settings.ignored);
  const group = { unit, nTrue: 0, nFalse: 0, lengthTrue: 0, lengthFalse: 0, distinctTrue: 0, distinctFalse: 0, counts: new Map(), keys: new Map() };
  const texts = new Map(), verdicts = new Map();
  for (let r = first; r < first + groups.size[g]; r++) {
    if (leftOut(r)) continue;
    group.keys.set(r, unitKeys(r, unit, ignored));
    if (rollouts.correct[r] === null) continue;
    const ids = idsOf(r), mask = maskOf(r);
    const text = (mask ? ids.filter((_, t) => mask[t]) : ids).join();
    texts.set(r, text);
    verdicts.set(text, (verdicts.get(text) ?? new Set()).add(rollouts.correct[r]));
  }
  const kept = new Set();
  for (const [r, text] of texts) {
    const correct = rollouts.correct[r], seen = new Set();
    const isRepeat = kept.has(text) || verdicts.get(text).size > 1;
    let counted = 0;
    for (const key of group.keys.get(r)) {
      if (key === null) continue;
      counted++;
      let c = group.counts.get(key);
      if (!c) group.counts.set(key, (c = { a: 0, b: 0, inTrue: 0, inFalse: 0, distinct: { a: 0, b: 0 } }));
      c[correct ? "inTrue" : "inFalse"]++;
      if (seen.has(key)) continue;
      seen.add(key);
      c[correct ? "a" : "b"]++;
      if (!isRepeat) c.distinct[correct ? "a" : "b"]++;
    }
    if (counted === 0) continue;
    group[correct ? "nTrue" : "nFalse"]++;
    group[correct ? "lengthTrue" : "lengthFalse"] += counted;
    if (!isRepeat) group[correct ? "distinctTrue" : "distinctFalse"]++;
    kept.add(text);
  }
  group.mixed = group.nTrue > 0 && group.nFalse > 0;
  const explained = new Map(), byCell = new Map();
  group.pOf = (key) => {
    const { a, b } = group.counts.get(key).distinct;
    const cell = a * (group.distinctFalse + 1) + b;
    if (!byCell.has(cell)) byCell.set(cell, fisherPValue(a, b, group.distinctTrue, group.distinctFalse, false));
    return byCell.get(cell);
  };
  group.of = (key) => {
    const counts = group.counts.get(key);
    if (!counts) return null;
    if (!group.mixed) return { a: counts.a, b: counts.b, p: 1, fisher: 0, gain: 0, direction: 0, value: 0, credit: 0, none: true };
    let x = explained.get(key);
    if (!x) explained.set(key, (x = explain(counts, group, settings)));
    return x;
  };
  return group;
}

// A group with its units, made when asked for; the last few groups are kept. What stands for the
// group itself is its single tokens.
const groupCache = new Map();
function groupStatistics(g, preset) {
  const key = `${g}/${preset}/${state.finished}`;
  const known = groupCache.get(key);
  if (known) return known;
  const settings = report.presets[preset];
  const group = countGroup(g, settings, "token");
  group.inBlock = settings.units === null;
  group.silent = new Set(settings.silent);
  group.units = (settings.units ?? ["token"]).map((unit) => (unit === "token" ? group : countGroup(g, settings, unit)));
  group.largest = largestIn(g, group);
  if (groupCache.size > 12) groupCache.delete(groupCache.keys().next().value);
  groupCache.set(key, group);
  return group;
}

// A token's credit: the mean of its units', or what stands in the page.
function creditOf(rollout, t, group) {
  if (report.rollouts.correct[rollout] === null || !group.keys.has(rollout) || group.keys.get(rollout)[t] === null) return 0;
  if (group.inBlock) return report.credit[report.offsets[rollout] + t];
  if (group.silent.has(report.vocabulary.id[idsOf(rollout)[t]])) return 0;
  let sum = 0;
  for (const of of group.units) sum += of.of(of.keys.get(rollout)[t]).credit;
  return sum / group.units.length;
}

// The units that a token's credit is the mean of: [{ of, key, x }].
function unitsAt(rollout, t, group) {
  if (!group.keys.has(rollout) || group.keys.get(rollout)[t] === null) return [];
  return group.units.map((of) => ({ of, key: of.keys.get(rollout)[t] })).map((unit) => ({ ...unit, x: unit.of.of(unit.key) })).filter(({ x }) => x !== null);
}

// The largest |credit| in a group, at which a shade is full; of nothing, 1.
function largestIn(g, group) {
  let most = 0;
  const first = report.groups.first[g];
  for (let r = first; r < first + report.groups.size[g]; r++) {
    for (let t = 0; t < report.rollouts.length[r]; t++) most = Math.max(most, Math.abs(creditOf(r, t, group)));
  }
  return most || 1;
}

// The unit of a token's that says most.
const strongestUnit = (units) => units.reduce((best, unit) => (best && Math.abs(best.x.credit) >= Math.abs(unit.x.credit) ? best : unit), null);
