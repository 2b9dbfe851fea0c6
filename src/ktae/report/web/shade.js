// From numbers to shades: nine levels, in classes p1 to p8 (for), n1 to n8 (against), s1 to s8 (size).

const LEVELS = 8;
const level = (share) => Math.max(0, Math.min(LEVELS, Math.round(share * LEVELS)));

function shadeClass(signal, number, scale) {
  if (number === null || number === undefined || Number.isNaN(number)) return "";
  if (signal === "credit" || signal === "advantage") {
    // The smallest numbers get the first shade: 0 alone has none.
    const strength = number === 0 ? 0 : Math.max(1, level(Math.abs(number) / scale));
    return strength ? (number > 0 ? "p" : "n") + strength : "";
  }
  const strength = level(number / scale);
  return strength ? `s${strength}` : "";
}

// Of a token's unit that says most: "sure" where it is beyond chance after correction for all units
// of the group, "beyond" where its p alone is below .05, else "".
function beyondClass(rollout, t, group) {
  const unit = strongestUnit(unitsAt(rollout, t, group));
  if (!unit || !group.mixed) return "";
  const p = unit.of.pOf(unit.key);
  return p <= discoveryBound(unit.of, LEVEL) ? "sure" : p < LEVEL ? "beyond" : "";
}

// What a signal says at a token, as a number to shade by.
function signalAt(signal, rollout, t, group) {
  if (signal === "log_prob") return -report.log_prob[report.offsets[rollout] + t];
  if (signal === "entropy") return report.entropy[report.offsets[rollout] + t];
  const mask = maskCache(rollout), counts = !(mask && !mask[t]);
  if (signal === "credit") return creditOf(rollout, t, group);
  if (signal === "advantage") return counts ? (report.rollouts.advantage[rollout] ?? NaN) + creditOf(rollout, t, group) : 0;
  const unit = counts && report.rollouts.correct[rollout] !== null ? strongestUnit(unitsAt(rollout, t, group)) : null;
  if (signal === "p") return unit ? -Math.log10(unit.of.pOf(unit.key)) : 0;
  return unit && signal === "gain" ? unit.x.gain : 0;
}

let lastMask = { rollout: -1, mask: null };
function maskCache(rollout) {
  if (lastMask.rollout !== rollout) lastMask = { rollout, mask: maskOf(rollout) };
  return lastMask.mask;
}

// The number at full shade: of credit the largest in the group, so that every group shows something.
function fullShade(signal, g, group) {
  if (signal === "credit") return group.largest;
  if (signal === "advantage") {
    let most = 0;
    const first = report.groups.first[g];
    for (let r = first; r < first + report.groups.size[g]; r++) most = Math.max(most, Math.abs(report.rollouts.advantage[r] ?? 0));
    return most + group.largest;
  }
  return { p: 4, gain: 1, log_prob: 6, entropy: 3 }[signal] ?? 1;
}

// How many of a group's units are beyond chance after correction for their number.
const surelyBeyond = (group) => (group.mixed ? group.units.reduce((n, of) => n + [...of.counts.keys()].filter((key) => of.pOf(key) <= discoveryBound(of, LEVEL)).length, 0) : 0);

// The legend of a signal: its ends and the shades between, and what is underlined.
function legend(signal, g, group) {
  if (signal === "none" || (signal === "credit" && !group.mixed && !group.inBlock)) return null;
  const scale = fullShade(signal, g, group);
  const both = signal === "credit" || signal === "advantage";
  const ends = {
    p: ["p = 1", "p = .0001"],
    gain: ["0", "1 bit"],
    log_prob: ["log p = 0", "−6"],
    entropy: ["0", "3 nats"],
  }[signal] ?? [`against a right answer ${signed(-scale, 2)}`, `for it ${signed(scale, 2)}`];
  const steps = [];
  for (let i = both ? LEVELS : 0; i > 0; i--) steps.push(`n${i}`);
  steps.push("");
  for (let i = 1; i <= LEVELS; i++) steps.push((both ? "p" : "s") + i);
  const swatches = steps.map((name) => h("i", { class: name }));
  return h("div", { class: "legend" },
    h("span", {}, ends[0]), h("span", { class: "swatches", "aria-hidden": "true" }, swatches), h("span", {}, ends[1]),
    signal === "credit" ? h("span", {}, h("span", { class: "beyond" }, "underlined"), ": p < .05 in this group", surelyBeyond(group) ? [" · ", h("span", { class: "beyond sure" }, "twice"), ": beyond chance"] : null) : null);
}
