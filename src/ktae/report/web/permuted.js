// What of the credit and of the significant tokens is there under permuted labels too.

const CHANCE_ROWS = [
  ["credit_abs", "mean |credit|", (x) => plain(x), MEAN_CREDIT.split(": ")[1]],
  ["saturated", "saturated tokens", percent, "|credit| above 90 % of the largest that there can be"],
  ["no_evidence", "no evidence", percent, "pairs of group and token with p = 1"],
  ["significant", "p below .05", (x) => `${plain(100 * x, 2)} %`, "pairs; two-sided, exact"],
  ["discoveries", "significant", (x) => thousands(Math.round(x)), "pairs at a false discovery rate of 5 %"],
];

const whenPermuted = () => report.permuted?.presets[state.preset] ?? null;

function besideChance() {
  const { permuted } = report, found = whenPermuted();
  if (!found) return null;
  const which = permuted.groups < permuted.mixed ? `${thousands(permuted.groups)} of ${thousands(permuted.mixed)} mixed groups, evenly spaced` : "all mixed groups";
  const range = (x, show) => [show(x.mean), h("small", {}, `${show(x.low)} to ${show(x.high)}`)];
  const rows = CHANCE_ROWS.map(([key, name, show, about]) => h("tr", {}, h("th", { scope: "row" }, name, h("small", {}, about)),
    h("td", {}, h("b", {}, show(found[key].real))), h("td", {}, range(found[key], show)),
    h("td", {}, found[key].mean > 0 ? plain(found[key].real / found[key].mean, 2) : "–")));
  const head = h("tr", {}, ["", "real", "permuted labels", "ratio"].map((name) => (name ? h("th", { scope: "col" }, name) : h("td"))));
  return h("section", { class: "pane", "aria-label": "Beside permuted labels" }, h("h2", {}, "Beside permuted labels"),
    h("p", { class: "quiet" }, `The same with labels permuted within each group, ${permuted.permutations} times (mean, lowest to highest), over ${which}. What permuted labels give as well says nothing about correctness. Of ${thousands(found.pairs)} pairs, ${percent(found.testable)} could have p below .05 at all.`),
    h("table", { class: "numbers permuted" }, h("thead", {}, head), h("tbody", {}, rows)));
}
