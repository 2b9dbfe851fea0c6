// What tokens are coloured by: nine levels, in classes p1 to p8 (toward), n1 to n8 (against).

const SIGNALS = { credit: "credit", advantage: "token advantage", none: "no shading" };
const LEVELS = 8;

const shadedBy = () => (state.signal === "credit" ? `Credit of ${report.estimator}` : inUnits(SIGNALS[state.signal]));

// The class of a number; `full` is the one at full shade. The smallest credit gets the first shade: 0 alone has none.
function shadeClass(number, full) {
  if (isNone(number) || number === 0) return "";
  return (number > 0 ? "p" : "n") + Math.max(1, Math.min(LEVELS, Math.round((Math.abs(number) / full) * LEVELS)));
}

// The number to shade a token by.
function signalAt(rollout, t) {
  if (state.signal === "none") return 0;
  if (state.signal === "credit") return creditAt(rollout, t);
  return isCounted(rollout, t) ? (report.rollouts.advantage[rollout] ?? NaN) + creditAt(rollout, t) : 0;
}

// The number at full shade: of credit the largest in the group, so that every group shows something.
function fullShade(g) {
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
  if (state.signal === "none" || (state.signal === "credit" && !isMixed(g))) return null;
  const full = fullShade(g);
  const numbers = Array.from({ length: LEVELS }, (_, i) => i + 1);
  const classes = [...numbers.map(i => `n${i}`).reverse(), "", ...numbers.map(i => `p${i}`)];
  const [low, high] = [`against a correct answer ${signed(-full, 2)}`, `toward it ${signed(full, 2)}`];
  const beyond = el`<span><span class="beyond">underlined</span>: beyond chance in the whole dump</span>`;
  return el`<div class="legend">
    <b>${shadedBy()}</b><span>${low}</span>
    <span class="swatches" aria-hidden="true">${classes.map(name => el`<i class="${name}"></i>`)}</span>
    <span>${high}</span>
    ${report.groups.beyond[g] > 0 && beyond}
  </div>`;
}
