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

// The class of a token's credit: faint where chance explains it, by the switch.
function creditClass(x, group, rank, scale) {
  const name = x ? shadeClass("credit", x.credit, scale) : "";
  return name && isFaint(group, rank) ? `${name[0]}0` : name;
}

function isFaint(group, rank) {
  if (state.shade === "all") return false;
  const p = group.pOf(rank);
  return state.shade === "p" ? p >= LEVEL : p > discoveryBound(group, LEVEL);
}

// What a signal says at a token, as a number to shade by, and the number at full shade.
function signalAt(signal, rollout, t, group) {
  const rank = report.tokens[report.offsets[rollout] + t];
  if (signal === "log_prob") return -report.log_prob[report.offsets[rollout] + t];
  if (signal === "entropy") return report.entropy[report.offsets[rollout] + t];
  const mask = maskCache(rollout);
  const known = report.rollouts.correct[rollout] !== null && !(mask && !mask[t]);
  const x = known ? group.of(rank) : null;
  if (signal === "credit") return x ? x.credit : 0;
  if (signal === "p") return x ? -Math.log10(group.pOf(rank)) : 0;
  if (signal === "gain") return x ? x.gain : 0;
  if (signal === "advantage") return mask && !mask[t] ? 0 : (report.rollouts.advantage[rollout] ?? NaN) + (x ? x.credit : 0);
  return null;
}

let lastMask = { rollout: -1, mask: null };
function maskCache(rollout) {
  if (lastMask.rollout !== rollout) lastMask = { rollout, mask: maskOf(rollout) };
  return lastMask.mask;
}

function fullShade(signal, g) {
  const settings = report.presets[state.preset];
  const half = largestOnPage(settings);
  if (signal === "credit") return half;
  if (signal === "advantage") {
    let most = 0;
    const first = report.groups.first[g];
    for (let r = first; r < first + report.groups.size[g]; r++) {
      most = Math.max(most, Math.abs(report.rollouts.advantage[r] ?? 0));
    }
    return most + half;
  }
  return { p: 4, gain: 1, log_prob: 6, entropy: 3 }[signal] ?? 1;
}

const FAINT = {
  p: ["chance explains it", "p is .05 or more in its group: two-sided, exact, for this token alone"],
  q: ["chance explains it", "not significant at a false discovery rate of 5 % over the tokens of its group"],
};

// The legend of a signal: its ends and the shades between.
function legend(signal, g) {
  if (signal === "none") return h("span", {});
  const scale = fullShade(signal, g);
  const both = signal === "credit" || signal === "advantage";
  const ends = {
    p: ["p = 1", "p = .0001"],
    gain: ["0", "1 bit"],
    log_prob: ["log p = 0", "−6"],
    entropy: ["0", "3 nats"],
  }[signal] ?? [`against ${signed(-scale, 2)}`, `for ${signed(scale, 2)}`];
  const steps = [];
  for (let i = both ? LEVELS : 0; i > 0; i--) steps.push(`n${i}`);
  steps.push("");
  for (let i = 1; i <= LEVELS; i++) steps.push((both ? "p" : "s") + i);
  const swatches = steps.map((name) => h("i", { class: name }));
  const faint = signal === "credit" && FAINT[state.shade];
  return h("span", { class: "legend" },
    faint ? h("span", { class: "legend", title: faint[1] }, h("span", { class: "swatches", "aria-hidden": "true" }, h("i", { class: "n0" }), h("i", { class: "p0" })), faint[0]) : null,
    h("span", {}, ends[0]), h("span", { class: "swatches", "aria-hidden": "true" }, swatches), h("span", {}, ends[1]));
}
