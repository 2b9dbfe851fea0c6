// What of the terms and of the significant tokens is there under permuted labels too.

const CHANCE_ROWS = [
  ["term_abs", "mean |term|", (x) => plain(x), "over tokens"],
  ["saturated", "saturated tokens", percent, "|term| above 90 % of the largest that there can be"],
  ["no_evidence", "no evidence", percent, "pairs of group and token with p = 1"],
  ["significant", "p below .05", (x) => `${plain(100 * x, 2)} %`, "pairs; two-sided, exact"],
  ["discoveries", "significant", (x) => thousands(Math.round(x)), "pairs at a false discovery rate of 5 %"],
];

const byChance = () => report.chance?.presets[state.preset] ?? null;

function besideChance() {
  const { chance } = report, found = byChance();
  if (!found) return null;
  const which = chance.groups < chance.mixed ? `${thousands(chance.groups)} of ${thousands(chance.mixed)} mixed groups, evenly spaced` : "all mixed groups";
  const range = (x, show) => [show(x.mean), h("small", {}, `${show(x.low)} to ${show(x.high)}`)];
  const rows = CHANCE_ROWS.map(([key, name, show, about]) => h("tr", {}, h("th", { scope: "row" }, name, h("small", {}, about)),
    h("td", {}, h("b", {}, show(found[key].real))), h("td", {}, range(found[key], show)),
    h("td", {}, found[key].mean > 0 ? plain(found[key].real / found[key].mean, 2) : "–")));
  const head = h("tr", {}, ["", "real", "by chance", "ratio"].map((name) => (name ? h("th", { scope: "col" }, name) : h("td"))));
  return h("section", { class: "pane", "aria-label": "Beside chance" }, h("h2", {}, "Beside chance"),
    h("p", { class: "quiet" }, `The same with labels permuted within each group, ${chance.permutations} times (mean, lowest to highest), over ${which}. What chance gives, too, says nothing about correctness. Of ${thousands(found.pairs)} pairs, ${percent(found.testable)} could have p below .05 at all.`),
    h("table", { class: "numbers chance" }, h("thead", {}, head), h("tbody", {}, rows)));
}
