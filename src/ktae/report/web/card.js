// Everything about one token of one response: in plain words first, the numbers below.

const UNIT_NAMES = { token: "", bigram: "with the one before ", trigram: "with the two before " };

function tokenCard(rollout, t, { run } = {}) {
  const rank = idsOf(rollout)[t];
  const g = report.groupOf[rollout];
  const id = report.vocabulary.id[rank];
  const card = h("div", { class: "card" }, cardTitle(rollout, t, rank), runParts(rollout, run, t));
  const say = text => card.append(h("p", {}, inUnits(text)));
  if (!isCounted(rollout, t)) {
    say("The policy did not write this token, or it was cut off: it is masked, counts nowhere and gets no credit.");
    return card;
  }
  const credit = creditAt(rollout, t);
  const units = unitsAt(rollout, t);
  if (report.rollouts.correct[rollout] === null) say("This response has no verdict: it is in no table.");
  else if (report.credit.ignored.includes(id)) say("The estimator gives this token no credit.");
  else if (!isMixed(g) && credit === 0) say(report.groups.evidence[g]);
  else card.append(verdict(credit, units), ...units.map(contingency));
  card.append(advantageSum(rollout, credit), signalsOf(rollout, t));
  if (units.length && report.credit.note) card.append(remark(report.credit.note));
  card.append(h("p", {}, h("a", { href: linkTo({ view: "tokens", id }) }, inUnits("This token in all groups"))));
  return card;
}

function cardTitle(rollout, t, rank) {
  const { rollouts, vocabulary } = report;
  const place = `${report.unit} ${thousands(t + 1)} of ${thousands(rollouts.length[rollout])}`;
  const facts = [place, `response ${numberOf(rollout) + 1}, ${outcomeName(rollout)}`, `id ${vocabulary.id[rank]}`];
  return h(
    "div",
    {},
    h("h3", {}, h("code", { class: "token", dir: "auto" }, tokenLabel(rank))),
    remark(facts.join(" · ")),
  );
}

// The tokens of a run that one character is made of.
function runParts(rollout, run, t) {
  if (!run || run.count < 2) return null;
  const parts = Array.from({ length: run.count }, (_, i) => {
    const at = run.first + i;
    const onclick = () => showCard(rollout, at, { run, pin: true });
    return h("button", { type: "button", "aria-pressed": String(at === t), onclick }, tokenLabel(idsOf(rollout)[at]));
  });
  return h("p", { class: "parts" }, `“${onOneLine(run.text)}” is made of ${run.count} tokens: `, parts);
}

// What the strongest unit says. Single p-values are not corrected for choosing among many tokens.
function verdict(credit, units) {
  const unit = [...units].sort((x, y) => x.p - y.p)[0];
  const side = credit > 0 ? "Leans to correct" : "Leans to incorrect";
  const line = h(
    "p",
    { class: "verdict" },
    credit ? h("b", { class: credit > 0 ? "p6" : "n6" }, side) : "Its credit is 0",
    ".",
  );
  if (!unit) return line;
  const { name, a, nCorrect, b, nIncorrect, p, beyond } = unit;
  const what = name === "token" ? `The ${report.unit}` : `Together ${UNIT_NAMES[name]}the ${report.unit}`;
  const told = beyond
    ? "That is beyond chance, corrected over all groups"
    : "Among so many, a split like this is to be expected by chance";
  line.append(
    ` ${what} is in ${a} of ${nCorrect} correct and ${b} of ${nIncorrect} incorrect responses. `,
    `${told} (p = ${pText(p)}, of distinct responses).`,
  );
  return line;
}

// The 2×2 of a unit: a column for each class, filled as far as its responses have it.
function contingency({ name, a, nCorrect, b, nIncorrect }) {
  const cell = (n, total, sort) => {
    const td = h("td", { class: `cell ${sort}` }, h("b", {}, String(n)));
    td.style.setProperty("--share", total ? n / total : 0);
    return td;
  };
  const row = (title, x, y, sorts) =>
    h("tr", {}, h("th", { scope: "row" }, title), cell(x, nCorrect, sorts[0]), cell(y, nIncorrect, sorts[1]));
  const heads = ["correct", "incorrect"].map(text => h("th", { scope: "col" }, text));
  return h(
    "table",
    { class: "contingency" },
    h("caption", {}, `Responses with this ${name === "token" ? report.unit : name}`),
    h("thead", {}, h("tr", {}, h("td", {}), heads)),
    h(
      "tbody",
      {},
      row("with it", a, b, ["toward", "against"]),
      row("without", nCorrect - a, nIncorrect - b, ["none", "none"]),
    ),
  );
}

function advantageSum(rollout, credit) {
  const advantage = report.rollouts.advantage[rollout];
  if (advantage === null) return remark("No reward or advantage is known of this response.");
  const part = (number, name) => h("span", {}, h("b", {}, signed(number)), h("small", {}, name));
  return h(
    "p",
    { class: "sum" },
    part(advantage, "rollout advantage"),
    " + ",
    part(credit, `credit of ${report.credit.name}`),
    " = ",
    part(advantage + credit, inUnits(SIGNALS.advantage)),
  );
}

function signalsOf(rollout, t) {
  const at = report.offsets[rollout] + t;
  const row = name => h("tr", {}, h("th", { scope: "row" }, SIGNALS[name]), h("td", {}, plain(report[name][at], 2)));
  return report.signals.length ? h("table", { class: "numbers" }, h("tbody", {}, report.signals.map(row))) : "";
}
