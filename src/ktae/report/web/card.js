// Everything about one token of one rollout: in plain words first, the numbers below.

function tokenCard(rollout, t, { run } = {}) {
  const g = report.groupOf[rollout];
  const group = groupStatistics(g, state.preset), settings = report.presets[state.preset];
  const rank = idsOf(rollout)[t];
  const mask = maskCache(rollout), correct = report.rollouts.correct[rollout];
  const card = h("div", { class: "card" }, cardTitle(rollout, t, rank), runParts(rollout, run, t));
  if (mask && !mask[t]) {
    card.append(h("p", {}, inUnits("The policy did not write this token, or it was cut off: it is masked, counts nowhere and gets no credit.")));
    return card;
  }
  if (settings.ignored.includes(report.vocabulary.id[rank])) {
    card.append(h("p", {}, inUnits("This estimator ignores this token: it neither counts nor gets credit.")));
    return card;
  }
  if (correct === null) card.append(h("p", {}, "This rollout's correctness is unknown: it is in no table and its credit is 0."));
  const credit = creditOf(rollout, t, group), units = unitsAt(rollout, t, group);
  if (!group.mixed && credit === 0) {
    card.append(h("p", {}, noComparison(group)), advantageSum(rollout, 0), signalsOf(rollout, t));
    return card;
  }
  const strongest = strongestUnit(units);
  card.append(verdict(credit, strongest, group));
  if (settings.units === null) card.append(ofEstimator(settings));
  if (units.length > 1) card.append(unitTable(units));
  if (strongest) card.append(h("div", {}, contingency(strongest)));
  card.append(advantageSum(rollout, credit), signalsOf(rollout, t));
  if (strongest && settings.units !== null) {
    card.append(h("details", {}, h("summary", {}, "How the credit comes about"), statistics(strongest)));
  }
  card.append(h("p", {}, h("a", { href: fragment({ view: "tokens", id: report.vocabulary.id[rank] }) }, `This ${unitWord()} in all groups`)));
  return card;
}

// Where there is no tokenizer, texts are cut at words.
const unitWord = () => (report.unit === "words" ? "word" : "token");
const inUnits = (text) => (report.unit === "words" ? text.replace(/token/g, "word").replace(/Token/g, "Word") : text);
const unitName = () => inUnits("Tokens");

// What ktae.report.marks has recognised.
const MARKS = {
  1: ["end", "It stands at the end of rollouts and nowhere else: its credit says which were cut off, not how they reason."],
  2: ["format", "It stands in a box, a closing tag or the like: its credit says which have the form, not how they reason."],
};

function cardTitle(rollout, t, rank) {
  const { groups, rollouts, vocabulary } = report;
  const number = rollout - groups.first[report.groupOf[rollout]] + 1;
  const mark = MARKS[vocabulary.mark[rank]];
  return h("div", {},
    h("h3", {}, h("code", { class: "token", dir: "auto" }, tokenLabel(rank))),
    mark ? h("p", {}, h("span", { class: "flag" }, mark[0]), ` ${mark[1]}`) : null,
    h("p", { class: "quiet" }, `${unitWord()} ${thousands(t + 1)} of ${thousands(rollouts.length[rollout])} · rollout ${number}, ${verdictName(rollout)} · id ${vocabulary.id[rank]}`));
}

const verdictName = (rollout) => ({ 1: "right", 0: "wrong" })[report.rollouts.correct[rollout]] ?? "unknown";

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
  return `All ${group.nTrue + group.nFalse} rollouts of this group are ${group.nTrue ? "right" : "wrong"}: there is nothing to compare, and all credit is 0.`;
}

// A unit's text: of several tokens, as they follow each other.
const unitText = ({ key }) => String(key).split(",").map((rank) => (rank === "-1" ? "⟨begin⟩" : tokenLabel(Number(rank)))).join("");
const UNIT_NAMES = { token: "", bigram: "with the one before ", trigram: "with the two before " };

function verdict(credit, strongest, group) {
  if (credit === 0) {
    const all = strongest && strongest.x.a === group.nTrue && strongest.x.b === group.nFalse;
    return h("p", { class: "verdict" }, all ? "Every rollout has it, so it says nothing: its credit is 0." : "Its credit is 0.");
  }
  const isShown = strongest && strongest.of.pOf(strongest.key) < LEVEL;
  const side = isShown ? `Speaks ${credit > 0 ? "for" : "against"} a right answer` : `Leans to ${credit > 0 ? "right" : "wrong"}`;
  const line = h("p", { class: "verdict" }, h("b", { class: credit > 0 ? "p6" : "n6" }, side), ".");
  if (!strongest) return line;
  const { x, of, key } = strongest, p = of.pOf(key), told = group.inBlock ? "Alone, the" : of.unit === "token" ? "The" : `Together ${UNIT_NAMES[of.unit]}the`;
  line.append(` ${told} ${unitWord()} is in ${x.a} of ${of.nTrue} right and ${x.b} of ${of.nFalse} wrong rollouts. `,
    p <= discoveryBound(of, LEVEL) ? "That is beyond chance, also after correction" : isShown ? "Alone that is more than chance gives; among so many it is not" : "A split like this is common by chance", ` (p = ${pText(p)}${copiesNote(of)}).`);
  return line;
}

// An estimator that rests on other things than tables of n-grams.
function ofEstimator(settings) {
  return h("p", { class: "quiet" }, inUnits(`The credit is that of ${settings.name}. ${settings.tables ? "Its units are longer than single tokens, or it moves credit between tokens" : "It rests on no table of tokens"}: the table below is of the single token, for comparison.`));
}

// Of several units, each with its counts; the credit is the mean of theirs.
function unitTable(units) {
  const head = h("tr", {}, ["unit", "right", "wrong", "p", "credit"].map((name, i) => h("th", { scope: "col", class: i ? "number" : null }, name)));
  const rows = units.map((unit) => h("tr", {}, h("th", { scope: "row" }, h("code", { dir: "auto" }, unitText(unit))),
    h("td", {}, `${unit.x.a}/${unit.of.nTrue}`), h("td", {}, `${unit.x.b}/${unit.of.nFalse}`), h("td", {}, pText(unit.of.pOf(unit.key))), h("td", {}, signed(unit.x.credit))));
  return h("table", { class: "numbers units" }, h("caption", {}, "Credit is the mean of these"), h("thead", {}, head), h("tbody", {}, rows));
}

// The 2×2 of a unit: a column for each class, filled as far as its rollouts have it.
function contingency(unit) {
  const { x, of: { nTrue, nFalse } } = unit;
  const cell = (n, total, name, sort) => {
    const td = h("td", { class: `cell ${sort}` }, h("b", {}, String(n)), h("span", { class: "quiet" }, ` ${name}`));
    td.style.setProperty("--share", total ? n / total : 0);
    return td;
  };
  return h("table", { class: "contingency" },
    h("caption", {}, "Rollouts of this group with ", h("code", { dir: "auto" }, unitText(unit))),
    h("thead", {}, h("tr", {}, h("td", {}), h("th", { scope: "col" }, "right"), h("th", { scope: "col" }, "wrong"))),
    h("tbody", {},
      h("tr", {}, h("th", { scope: "row" }, "with it"), cell(x.a, nTrue, "a", "for"), cell(x.b, nFalse, "b", "against")),
      h("tr", {}, h("th", { scope: "row" }, "without"), cell(nTrue - x.a, nTrue, "c", "none"), cell(nFalse - x.b, nFalse, "d", "none"))));
}

// What p-values of distinct rollouts have to say where counts of all rollouts stand beside them.
function copiesNote({ nTrue, nFalse, distinctTrue, distinctFalse }) {
  return distinctTrue < nTrue || distinctFalse < nFalse ? "; identical rollouts count at most once" : "";
}

function statistics({ x, of, key }) {
  const s = report.presets[state.preset];
  if (s.z) return numbers([
    ["p (Fisher, two-sided)", pText(of.pOf(key)), `for comparison; not in the credit${copiesNote(of)}`],
    ["z", signed(x.z), "of the verdicts of the rollouts that have it, over permuted verdicts"],
    ...(s.sharp ? [["sharpened", signed(x.value), "(z³ − its mean over permuted verdicts) ÷ (rollouts − 1)"]] : []),
    ["credit", signed(x.credit), `${s.credit_scale}·${s.sharp ? "sharpened" : "z"}`],
  ]);
  return numbers([
    [s.point ? "p (this table)" : "p (Fisher, two-sided)", pText(x.p), copiesNote(of) && "of all rollouts, as in the credit"],
    ["Fisher score", plain(x.fisher), x.p === 1 ? "0 where p = 1" : "exp(−2p)"],
    ["information gain", `${plain(x.gain)} bit`, "of correctness, by presence"],
    ["association", plain(x.strength), `${s.h1}·Fisher + ${s.h2}·gain`],
    ["frequency in right", `${plain(1000 * x.tfTrue, 2)} ‰`, inUnits("of their tokens")],
    ["frequency in wrong", `${plain(1000 * x.tfFalse, 2)} ‰`, inUnits("of their tokens")],
    ["effect size", signed(x.effect), "asin√(a/n) − asin√(b/n)"],
    ["frequency contrast", big(x.contrast), "saturated, right ÷ wrong − inverse"],
    ["direction", big(x.direction), `effect + ${s.h3}·contrast`],
    ["value", big(x.value), s.value_scale !== 1 ? "association · direction ÷ (h₁ + h₂)" : "association · direction"],
    ["credit", signed(x.credit), s.credit_scale === 1 ? "σ(value) − ½" : `${s.credit_scale}·(σ(value) − ½)`],
  ]);
}

const big = (x) => (Math.abs(x) >= 1000 ? (x > 0 ? "+" : "−") + Math.abs(x).toExponential(1).replace("+", "") : signed(x));

function numbers(rows) {
  return h("table", { class: "numbers" },
    h("tbody", {}, rows.map(([name, number, note]) =>
      h("tr", {}, h("th", { scope: "row" }, name, note ? h("small", {}, note) : null), h("td", {}, number)))));
}

function advantageSum(rollout, credit) {
  const advantage = report.rollouts.advantage[rollout];
  if (advantage === null) return h("p", { class: "quiet" }, report.rollouts.own_advantages ? "The dump holds no advantage of this rollout." : "No reward, so no advantage.");
  return h("p", { class: "sum" },
    h("span", {}, h("b", {}, signed(advantage)), h("small", {}, "rollout advantage")), " + ",
    h("span", {}, h("b", {}, signed(credit)), h("small", {}, "credit")), " = ",
    h("span", {}, h("b", {}, signed(advantage + credit)), h("small", {}, SIGNALS.advantage)));
}

function signalsOf(rollout, t) {
  const at = report.offsets[rollout] + t;
  const rows = report.signals.map((name) => [SIGNALS[name], plain(report[name][at], 2), "from the dump, to 1/512"]);
  return rows.length ? numbers(rows) : "";
}
