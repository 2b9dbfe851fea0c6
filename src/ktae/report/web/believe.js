// How far to believe the numbers: on the first page, above the rollouts.

const believeView = { open: true };

function drawBelieve() {
  const box = document.getElementById("believe");
  box.hidden = state.view !== "rollouts";
  if (box.hidden) return;
  const details = h("details", { open: believeView.open, ontoggle: (event) => { believeView.open = event.target.open; } },
    h("summary", {}, h("h2", {}, "How far to believe these numbers")),
    h("div", { class: "believe" }, chancePart(), heldOutPart(), checkPart()));
  box.replaceChildren(details);
}

// Real beside permuted labels, in a few words.
function chancePart() {
  const found = whenPermuted();
  if (!found) return h("div", {}, h("h3", {}, "Beside permuted labels"), h("p", { class: "quiet" }, "No group has both correct and incorrect rollouts: all credit is 0."));
  const { real, mean } = found.credit_abs;
  const part = real > 0 ? `${Math.round((100 * mean) / real)} % of it` : "all of it";
  const line = (name, x, show) => h("tr", {}, h("th", { scope: "row" }, name), h("td", {}, h("b", {}, show(x.real))), h("td", {}, show(x.mean)));
  return h("div", { "aria-label": "Real and permuted", role: "group" }, h("h3", {}, "Beside permuted labels"),
    h("table", { class: "numbers" }, h("thead", {}, h("tr", {}, h("td"), h("th", { scope: "col" }, "real"), h("th", { scope: "col" }, "permuted"))),
      h("tbody", {}, line("mean |credit|", found.credit_abs, (x) => plain(x, 4)), line("p below .05", found.significant, (x) => `${plain(100 * x, 2)} %`))),
    h("p", { class: "quiet" }, `With labels permuted within groups, ${part} is there as well. ${percent(found.testable)} of pairs of group and token could have p below .05 at all. More under Groups.`));
}

// Held-out pairs: a row an estimator, with its interval.
function heldOutPart() {
  const found = report.held_out;
  const head = h("h3", {}, "Held-out pairs");
  if (found.none) return h("div", {}, head, h("p", { class: "quiet" }, spellOut(found.none)));
  const ranked = [...found.estimators].sort((x, y) => y.auc - x.auc);
  const rows = [...ranked.map((x) => heldOutRow(x, x.name === found.take)), ...found.baselines.map((x) => heldOutRow(x, false, "quiet"))];
  return h("div", { "aria-label": "Held-out pairs", role: "group" }, head,
    h("table", { class: "numbers held-out" }, h("thead", {}, h("tr", {}, h("td"), h("th", { scope: "col" }, "right"), h("th", { scope: "col" }, "95 %"), h("th", { scope: "col" }, h("span", { class: "unseen" }, "from 0 to 1")), h("th", { scope: "col" }, "permuted"))), h("tbody", {}, rows)),
    h("p", { class: "quiet" }, `How often the correct one of two rollouts gets more credit when credit is computed from the others of its group; chance is .50. ${thousands(found.pairs)} pairs of ${thousands(found.groups)} groups.`));
}

const share = (x) => plain(x, 2).replace(/^0/, "");
const BASELINES = { shorter: "shorter is right", majority: "majority is right" };

function heldOutRow(x, taken, kind = null) {
  const bar = h("i", { class: "span" }), dot = h("i", { class: "dot" }), track = h("span", { class: "forest", "aria-hidden": "true" }, bar, dot);
  bar.style.left = `${100 * x.interval[0]}%`;
  bar.style.width = `${100 * (x.interval[1] - x.interval[0])}%`;
  dot.style.left = `${100 * x.auc}%`;
  const name = onOneLine(BASELINES[x.name] ?? x.name);
  return h("tr", { class: kind }, h("th", { scope: "row" }, taken ? h("b", {}, name) : name), h("td", {}, h("b", {}, share(x.auc))), h("td", {}, `${share(x.interval[0])} to ${share(x.interval[1])}`), h("td", {}, track), h("td", {}, share(x.permuted)));
}

// What it means, and what else is to be looked at.
function checkPart() {
  const lines = (report.held_out.lines ?? []).map((line) => h("li", {}, spellOut(line)));
  const graded = gradedLine();
  if (graded) lines.push(h("li", {}, graded, " ", report.regraded.total ? h("a", { href: fragment({ view: "groups" }) }, "List under Groups.") : ""));
  const unfinished = report.rollouts.finished.filter((x) => x === 0).length;
  if (unfinished) lines.push(h("li", {}, `${thousands(unfinished)} of ${thousands(report.rollouts.finished.length)} rollouts on this page are not finished (finished means: ${report.finished_rule}). Marks of an end or a format may tell only that.`));
  return h("div", { "aria-label": "What it means", role: "group" }, h("h3", {}, "What it means here"), lines.length ? h("ul", {}, lines) : h("p", { class: "quiet" }, "Nothing can be said."));
}
