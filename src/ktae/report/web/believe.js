// How far to believe the numbers: folded, below the overview.

function believeBox() {
  return h("details", { class: "pane", id: "believe" }, h("summary", {}, h("h2", {}, "How far to believe the colours")),
    h("div", { class: "believe" }, heldOutPart(), chancePart()));
}

// Held-out pairs: a row an estimator, with its interval.
function heldOutPart() {
  const found = report.held_out, head = h("h3", {}, "Held-out pairs");
  if (found.none) return h("div", {}, head, h("p", { class: "quiet" }, spellOut(found.none)));
  const ranked = [...found.estimators].sort((x, y) => y.auc - x.auc);
  const rows = [...ranked.map((x) => heldOutRow(x, x.name === found.take)), ...found.baselines.map((x) => heldOutRow(x, false, "quiet"))];
  return h("div", { "aria-label": "Held-out pairs", role: "group" }, head,
    h("p", { class: "quiet" }, `How often the right one of two rollouts gets more credit, when credit is computed from the others of its group. Chance is .50. ${counted(found.pairs, "pair")} of ${counted(found.groups, "group")}.`),
    h("table", { class: "numbers held-out" }, h("thead", {}, h("tr", {}, h("td"), h("th", { scope: "col" }, "share"), h("th", { scope: "col" }, "95 %"), h("th", { scope: "col" }, h("span", { class: "unseen" }, "from 0 to 1")), h("th", { scope: "col" }, "permuted"))), h("tbody", {}, rows)));
}

const share = (x) => plain(x, 2).replace(/^0/, "");
const BASELINES = { shorter: "the shorter one is right", majority: "the more frequent answer is right" };

function heldOutRow(x, taken, kind = null) {
  const bar = h("i", { class: "span" }), dot = h("i", { class: "dot" }), track = h("span", { class: "forest", "aria-hidden": "true" }, bar, dot);
  bar.style.left = `${100 * x.interval[0]}%`;
  bar.style.width = `${100 * (x.interval[1] - x.interval[0])}%`;
  dot.style.left = `${100 * x.auc}%`;
  const name = onOneLine(BASELINES[x.name] ?? x.name);
  return h("tr", { class: kind }, h("th", { scope: "row" }, taken ? h("b", {}, name) : name), h("td", {}, h("b", {}, share(x.auc))), h("td", {}, `${share(x.interval[0])} to ${share(x.interval[1])}`), h("td", {}, track), h("td", {}, share(x.permuted)));
}

// What of the credit and of the significant tokens is there under permuted labels too.
const CHANCE_ROWS = [
  ["credit_abs", "mean |credit|", (x) => plain(x), "of single tokens"],
  ["saturated", "saturated tokens", (x) => percent(x), "|credit| above 90 % of the largest that there can be"],
  ["no_evidence", "no evidence", (x) => percent(x), "pairs of group and token with p = 1"],
  ["significant", "p below .05", (x) => `${plain(100 * x, 2)} %`, "pairs; two-sided, exact"],
  ["discoveries", "significant pairs", (x) => thousands(Math.round(x)), "at a false discovery rate of 5 %"],
];

function chancePart() {
  const found = report.permuted, head = h("h3", {}, "Beside permuted labels");
  if (!found) return h("div", {}, head, h("p", { class: "quiet" }, "There is nothing to compare."));
  const which = found.groups < found.mixed ? `${thousands(found.groups)} of ${thousands(found.mixed)} mixed groups, evenly spaced` : "all mixed groups";
  const rows = CHANCE_ROWS.map(([key, name, show, about]) => h("tr", {}, h("th", { scope: "row" }, inUnits(name), h("small", {}, inUnits(about))),
    h("td", {}, h("b", {}, show(found[key].real))), h("td", {}, show(found[key].mean), h("small", {}, `${show(found[key].low)} to ${show(found[key].high)}`))));
  return h("div", { "aria-label": "Beside permuted labels", role: "group" }, head,
    h("p", { class: "quiet" }, `The same with labels permuted within each group, ${counted(found.permutations, "time")}, over ${which}. What permuted labels give as well says nothing about correctness. Of ${thousands(found.pairs)} pairs of group and ${unitWord()}, ${percent(found.testable)} could have p below .05 at all.`),
    h("table", { class: "numbers permuted" }, h("thead", {}, h("tr", {}, h("td"), h("th", { scope: "col" }, "real"), h("th", { scope: "col" }, "permuted"))), h("tbody", {}, rows)));
}
