// From numbers to shades: nine levels, in classes p1 to p8 (toward), n1 to n8 (against), s1 to s8 (size).

const LEVELS = 8;
const level = share => Math.max(0, Math.min(LEVELS, Math.round(share * LEVELS)));
const isSigned = signal => signal === "credit" || signal === "advantage";

function shadeClass(signal, number, scale) {
  if (number === null || number === undefined || Number.isNaN(number)) return "";
  if (isSigned(signal)) {
    // The smallest numbers get the first shade: 0 alone has none.
    const strength = number === 0 ? 0 : Math.max(1, level(Math.abs(number) / scale));
    return strength ? (number > 0 ? "p" : "n") + strength : "";
  }
  const strength = level(number / scale);
  return strength ? `s${strength}` : "";
}

// What a signal says at a token, as a number to shade by.
function signalAt(signal, rollout, t) {
  if (signal === "log_prob") return -report.log_prob[report.offsets[rollout] + t];
  if (signal === "entropy") return report.entropy[report.offsets[rollout] + t];
  if (signal === "credit") return creditAt(rollout, t);
  return isCounted(rollout, t) ? (report.rollouts.advantage[rollout] ?? NaN) + creditAt(rollout, t) : 0;
}

// The number at full shade: of credit the largest in the group, so that every group shows something.
function fullShade(signal, g) {
  if (signal === "credit") return largestIn(g);
  if (signal !== "advantage") return signal === "log_prob" ? 6 : 3;
  return largestIn(g) + Math.max(...rolloutsOf(g).map(r => Math.abs(report.rollouts.advantage[r] ?? 0)));
}

// The legend of a signal: its ends and the shades between, and whose numbers they are.
function legend(signal, g) {
  if (signal === "none") return null;
  const scale = fullShade(signal, g);
  const both = isSigned(signal);
  const ends = { log_prob: ["log p = 0", "−6"], entropy: ["0", "3 nats"] }[signal];
  const [low, high] = ends ?? [`against a correct answer ${signed(-scale, 2)}`, `toward it ${signed(scale, 2)}`];
  const numbers = Array.from({ length: LEVELS }, (_, i) => i + 1);
  const against = both ? numbers.map(i => `n${i}`).reverse() : [];
  const names = [...against, "", ...numbers.map(i => (both ? "p" : "s") + i)];
  const beyond = report.groups.beyond[g] > 0;
  return h(
    "div",
    { class: "legend" },
    h("b", {}, shadedBy()),
    h("span", {}, low),
    h(
      "span",
      { class: "swatches", "aria-hidden": "true" },
      names.map(name => h("i", { class: name })),
    ),
    h("span", {}, high),
    beyond ? h("span", {}, h("span", { class: "beyond" }, "underlined"), ": beyond chance in the whole dump") : null,
  );
}
