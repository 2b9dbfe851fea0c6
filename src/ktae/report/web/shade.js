// What tokens are coloured by: nine levels, in classes p1 to p8 (toward), n1 to n8 (against), s1 to s8 (size).

const SIGNALS = {
  credit: "credit",
  advantage: "token advantage",
  log_prob: "log-probability",
  entropy: "entropy",
  none: "no shading",
};
const LEVELS = 8;
const FULL = { log_prob: 6, entropy: 3 }; // nats

const signalsHere = () => Object.keys(SIGNALS).filter(name => !(name in FULL) || report.signals.includes(name));
const shadedBy = () => (state.signal === "credit" ? `Credit of ${report.credit.name}` : inUnits(SIGNALS[state.signal]));

// The class of a number; `full` is the one at full shade. The smallest credit gets the first shade: 0 alone has none.
function shadeClass(number, full, isSigned = !(state.signal in FULL)) {
  if (isNone(number) || number === 0) return "";
  const level = Math.max(isSigned ? 1 : 0, Math.min(LEVELS, Math.round((Math.abs(number) / full) * LEVELS)));
  if (!isSigned) return number > 0 && level ? `s${level}` : "";
  return (number > 0 ? "p" : "n") + level;
}

// The number to shade a token by.
function signalAt(rollout, t) {
  const at = report.offsets[rollout] + t;
  if (state.signal === "none") return 0;
  if (state.signal === "log_prob") return -report.log_prob[at];
  if (state.signal === "entropy") return report.entropy[at];
  if (state.signal === "credit") return creditAt(rollout, t);
  return isCounted(rollout, t) ? (report.rollouts.advantage[rollout] ?? NaN) + creditAt(rollout, t) : 0;
}

// The number at full shade: of credit the largest in the group, so that every group shows something.
function fullShade(g) {
  if (state.signal in FULL) return FULL[state.signal];
  const advantages = rolloutsOf(g).map(r => Math.abs(report.rollouts.advantage[r] ?? 0));
  return largestIn(g) + (state.signal === "advantage" ? Math.max(...advantages) : 0);
}

// The strongest token of a run that is drawn as one.
function strongestOf({ first, count }, rollout) {
  let best = first;
  for (let t = first; t < first + count; t++) {
    if (Math.abs(signalAt(rollout, t)) > Math.abs(signalAt(rollout, best))) best = t;
  }
  return best;
}

// The legend: the ends and the shades between, and whose numbers they are.
function legend(g) {
  if (state.signal === "none" || (state.signal === "credit" && !report.groups.credit_abs[g])) return null;
  const full = fullShade(g);
  const numbers = Array.from({ length: LEVELS }, (_, i) => i + 1);
  const isSize = state.signal in FULL;
  const classes = isSize
    ? ["", ...numbers.map(i => `s${i}`)]
    : [...numbers.map(i => `n${i}`).reverse(), "", ...numbers.map(i => `p${i}`)];
  const ends = { log_prob: ["log p = 0", `−${full}`], entropy: ["0", `${full} nats`] }[state.signal];
  const [low, high] = ends ?? [`against a correct answer ${signed(-full, 2)}`, `toward it ${signed(full, 2)}`];
  const beyond = el`<span><span class="beyond">underlined</span>: beyond chance in the whole dump</span>`;
  return el`<div class="legend">
    <b>${shadedBy()}</b><span>${low}</span>
    <span class="swatches" aria-hidden="true">${classes.map(name => el`<i class="${name}"></i>`)}</span>
    <span>${high}</span>
    ${report.groups.beyond[g] > 0 && beyond}
  </div>`;
}
