// Everything about one token of one rollout: how its value came about.

function tokenCard(rollout, t, { run } = {}) {
  const g = report.groupOf[rollout];
  const group = groupStatistics(g, state.preset);
  const rank = idsOf(rollout)[t];
  const mask = maskCache(rollout);
  const correct = report.rollouts.correct[rollout];
  const x = group.of(rank);
  const card = h("div", { class: "card" }, cardTitle(rollout, t, rank), runParts(rollout, run, t));
  const masked = mask && !mask[t];
  const ignored = report.presets[state.preset].ignored.includes(report.vocabulary.id[rank]);
  if (masked || ignored) {
    card.append(h("p", {}, masked
      ? "This token is masked (the policy did not write it, or it was cut off): it neither counts nor gets credit."
      : "This preset ignores this token: it neither counts nor gets credit."));
    return card;
  }
  if (correct === null) card.append(h("p", {}, "This rollout's correctness is unknown: it is in no table and its credit is 0."));
  if (!x || x.none) {
    card.append(h("p", {}, noComparison(group)), advantageSum(rollout, x && correct !== null ? x.credit : 0));
    return card;
  }
  card.append(verdict(x, group, rank), contingency(x, group), statistics(x, group, rank));
  card.append(advantageSum(rollout, correct === null ? 0 : x.credit), signalsOf(rollout, t));
  card.append(h("p", {}, h("a", { href: fragment({ view: "tokens", id: report.vocabulary.id[rank] }) }, "This token in all groups")));
  return card;
}

// What ktae.report.marks has recognised.
const MARKS = {
  1: ["end", "It stands at the end of rollouts and nowhere else: its credit says which were cut off, not how they reason."],
  2: ["format", "It stands in a box, a closing tag or the like: its credit says which have the form, not how they reason."],
};

function cardTitle(rollout, t, rank) {
  const { groups, rollouts } = report;
  const number = rollout - groups.first[report.groupOf[rollout]] + 1;
  const verdict = { 1: "correct", 0: "incorrect" }[rollouts.correct[rollout]] ?? "unknown";
  return h("div", {},
    h("h3", {}, h("code", { class: "token", dir: "auto" }, tokenLabel(rank))),
    report.vocabulary.mark[rank] ? h("p", {}, h("span", { class: "flag" }, MARKS[report.vocabulary.mark[rank]][0]), ` ${MARKS[report.vocabulary.mark[rank]][1]}`) : null,
    h("p", { class: "quiet" }, `id ${report.vocabulary.id[rank]} · token ${thousands(t + 1)} of ${thousands(rollouts.length[rollout])} · rollout ${number}, ${verdict}`));
}

// The tokens of a run that one character is made of.
function runParts(rollout, run, t) {
  if (!run || run.count < 2) return null;
  const ids = idsOf(rollout);
  const parts = [];
  for (let i = run.first; i < run.first + run.count; i++) {
    parts.push(h("button", { type: "button", "aria-pressed": String(i === t), onclick: () => showCard(rollout, i, { run, pin: true }) }, tokenLabel(ids[i])));
  }
  return h("p", { class: "parts" }, `“${onOneLine(run.text)}” is made of ${run.count} tokens: `, parts);
}

function noComparison(group) {
  if (group.nTrue + group.nFalse < 2) return "This group has fewer than two rollouts with a verdict: there is nothing to compare.";
  return `All ${group.nTrue + group.nFalse} rollouts of this group are ${group.nTrue ? "correct" : "incorrect"}: there is nothing to compare, and all credit is 0.`;
}

function verdict(x, group, rank) {
  const { nTrue, nFalse } = group;
  if (x.credit === 0) {
    const all = x.a === nTrue && x.b === nFalse;
    return h("p", { class: "verdict" }, all ? "Every rollout has it, so it says nothing: its credit is 0." : "Presence does not go with correctness: its credit is 0.");
  }
  const side = x.credit > 0 ? "for" : "against";
  const strength = Math.abs(x.credit) > 0.9 * largestCredit(report.presets[state.preset], nTrue + nFalse) ? "as strongly as credit can" : group.pOf(rank) < LEVEL ? "strongly" : "weakly";
  const p = group.pOf(rank);
  const chance = p >= LEVEL ? ` A split like this is common by chance (p = ${pText(p)}${copiesNote(group)}).` : "";
  return h("p", { class: "verdict" }, h("b", { class: x.credit > 0 ? "p6" : "n6" }, `Speaks ${side} correctness`),
    `, ${strength}: ${x.a} of ${nTrue} correct and ${x.b} of ${nFalse} incorrect rollouts have it.${chance}`);
}

// The 2×2: a column for each class, filled as far as its rollouts have the token.
function contingency(x, group) {
  const { nTrue, nFalse } = group;
  const cell = (n, total, name, sort) => {
    const td = h("td", { class: `cell ${sort}` }, h("b", {}, String(n)), h("span", { class: "quiet" }, ` ${name}`));
    td.style.setProperty("--share", total ? n / total : 0);
    return td;
  };
  return h("table", { class: "contingency" },
    h("caption", {}, "Rollouts of this group"),
    h("thead", {}, h("tr", {}, h("td", {}), h("th", { scope: "col" }, "correct"), h("th", { scope: "col" }, "incorrect"))),
    h("tbody", {},
      h("tr", {}, h("th", { scope: "row" }, "with it"), cell(x.a, nTrue, "a", "for"), cell(x.b, nFalse, "b", "against")),
      h("tr", {}, h("th", { scope: "row" }, "without"), cell(nTrue - x.a, nTrue, "c", "none"), cell(nFalse - x.b, nFalse, "d", "none"))));
}

// What p-values of distinct rollouts have to say where counts of all rollouts stand beside them.
function copiesNote({ nTrue, nFalse, distinctTrue, distinctFalse }) {
  return distinctTrue < nTrue || distinctFalse < nFalse ? "; identical rollouts count at most once" : "";
}

function statistics(x, group, rank) {
  const s = report.presets[state.preset];
  if (s.z) return numbers("How the credit came about", [
    ["p (Fisher, two-sided)", pText(group.pOf(rank)), `for comparison; not in the credit${copiesNote(group)}`],
    ["z", signed(x.z), "of the verdicts of the rollouts that have it, over permuted verdicts"],
    ...(s.sharp ? [["sharpened", signed(x.value), "(z³ − its mean over permuted verdicts) ÷ (rollouts − 1)"]] : []),
    ["credit", signed(x.credit), `${s.credit_scale}·${s.sharp ? "sharpened" : "z"}`],
  ]);
  const rows = [
    [s.point ? "p (this table)" : "p (Fisher, two-sided)", pText(x.p), copiesNote(group) && "of all rollouts, as in the credit"],
    ["Fisher score", plain(x.fisher), x.p === 1 ? "0 where p = 1" : "exp(−2p)"],
    ["information gain", `${plain(x.gain)} bit`, "of correctness, by presence"],
    ["association", plain(x.strength), `${s.h1}·Fisher + ${s.h2}·gain`],
    ["frequency in correct", `${plain(1000 * x.tfTrue, 2)} ‰`, "of their tokens"],
    ["frequency in incorrect", `${plain(1000 * x.tfFalse, 2)} ‰`, "of their tokens"],
    ["effect size", signed(x.effect), "asin√(a/n) − asin√(b/n)"],
    ["frequency contrast", big(x.contrast), "saturated, correct ÷ incorrect − inverse"],
    ["direction", big(x.direction), `effect + ${s.h3}·contrast`],
    ["value", big(x.value), s.value_scale !== 1 ? "association · direction ÷ (h₁ + h₂)" : "association · direction"],
    ["credit", signed(x.credit), s.credit_scale === 1 ? "σ(value) − ½" : `${s.credit_scale}·(σ(value) − ½)`],
  ];
  return numbers("How the credit came about", rows);
}

const big = (x) => (Math.abs(x) >= 1000 ? (x > 0 ? "+" : "−") + Math.abs(x).toExponential(1).replace("+", "") : signed(x));

function numbers(caption, rows) {
  return h("table", { class: "numbers" }, h("caption", {}, caption),
    h("tbody", {}, rows.map(([name, number, note]) =>
      h("tr", {}, h("th", { scope: "row" }, name, note ? h("small", {}, note) : null), h("td", {}, number)))));
}

function advantageSum(rollout, credit) {
  const advantage = report.rollouts.advantage[rollout];
  if (advantage === null) return h("p", { class: "quiet" }, report.rollouts.own_advantages ? "The dump holds no advantage of this rollout." : "No reward, so no advantage.");
  return h("p", { class: "sum" },
    h("span", {}, h("b", {}, signed(advantage)), h("small", {}, "rollout advantage")), " + ",
    h("span", {}, h("b", {}, signed(credit)), h("small", {}, "credit")), " = ",
    h("span", {}, h("b", {}, signed(advantage + credit)), h("small", {}, "token advantage")));
}

function signalsOf(rollout, t) {
  const at = report.offsets[rollout] + t;
  const rows = report.signals.map((name) => [SIGNALS[name], plain(report[name][at], 2), "to 1/512"]);
  return rows.length ? numbers("From the dump", rows) : "";
}
