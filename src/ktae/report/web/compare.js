// Two to four runs beside each other, or two steps of one run: the same prompts aligned.

const SIDE_COLOURS = ["--for-strong", "--against-strong", "--size", "--quiet"];

// What can be compared: runs, else steps in which the same prompts stand. [{ name, has(g) }].
function sidesHere() {
  const { groups, names } = report, runs = [...new Set(groups.run)].filter((run) => run >= 0);
  if (runs.length > 1 && runs.length <= SIDE_COLOURS.length) return runs.map((run) => ({ name: shortName(names[run]), run, has: (g) => groups.run[g] === run }));
  if (runs.length > 1) return [];
  const stepsOf = new Map();
  groups.same.forEach((same, g) => { if (groups.step[g] !== null) stepsOf.set(same, (stepsOf.get(same) ?? new Set()).add(groups.step[g])); });
  const steps = new Set([...stepsOf.values()].filter((at) => at.size > 1).flatMap((at) => [...at]));
  return [...steps].sort((x, y) => x - y).map((step) => ({ name: `step ${step}`, step, has: (g) => groups.step[g] === step }));
}

const shortName = (name) => onOneLine(name.split("/").filter((part) => part).slice(-2).join("/"));

// Accuracy and length of each prompt on a side: Map of prompt to { accuracy, length, g }.
function promptsOf(side) {
  const { groups } = report, sums = new Map();
  groups.same.forEach((same, g) => {
    if (!side.has(g)) return;
    const sum = sums.get(same) ?? { right: 0, known: 0, tokens: 0, n: 0, g };
    sum.right += groups.right[g];
    sum.known += groups.known[g];
    sum.tokens += groups.length[g] * groups.size[g];
    sum.n += groups.size[g];
    sums.set(same, sum);
  });
  return new Map([...sums].map(([same, x]) => [same, { accuracy: x.known ? x.right / x.known : null, length: x.tokens / x.n, g: x.g }]));
}

// Student's t at 97.5 %, by the expansion of Cornish and Fisher: right to .02 from 3 degrees on.
function studentT(df) {
  const z = 1.959964;
  return z + (z ** 3 + z) / (4 * df) + (5 * z ** 5 + 16 * z ** 3 + 3 * z) / (96 * df ** 2) + (3 * z ** 7 + 19 * z ** 5 + 17 * z ** 3 - 15 * z) / (384 * df ** 3);
}

// The mean of paired differences and its 95 % interval; no interval from fewer than five.
function pairedDifference(values) {
  const n = values.length, mean = values.reduce((sum, x) => sum + x, 0) / n;
  if (n < 5) return { n, mean, low: null, high: null };
  const error = Math.sqrt(values.reduce((sum, x) => sum + (x - mean) ** 2, 0) / (n - 1) / n);
  return { n, mean, low: mean - studentT(n - 1) * error, high: mean + studentT(n - 1) * error };
}

const compareView = { a: null, b: null };

function drawCompare(main) {
  const sides = sidesHere(), isRuns = sides[0].run !== undefined;
  const a = sides[Math.min(compareView.a ?? 0, sides.length - 1)], b = sides[Math.min(compareView.b ?? sides.length - 1, sides.length - 1)];
  const pick = (name, chosen) => h("select", { "aria-label": `Side ${name.toUpperCase()}`, onchange: (event) => { compareView[name] = Number(event.target.value); draw(); } },
    sides.map((side, i) => h("option", { value: String(i), selected: side === chosen }, side.name)));
  const others = isRuns ? sides.filter((side) => side !== a) : [b];
  main.replaceChildren(h("div", { class: "overview" },
    h("section", { class: "pane", "aria-label": "Differences" }, h("h2", {}, isRuns ? "Runs beside each other" : "Step against step"),
      h("div", { class: "bar" }, h("label", {}, "From ", pick("a", a)), h("label", {}, " to ", pick("b", b))),
      differences(a, others)),
    wonAndLost(a, b), isRuns ? overlays(sides) : null));
}

function differences(a, others) {
  const inA = promptsOf(a);
  const show = ({ mean, low, high }, scale, digits) => [h("b", {}, signed(scale * mean, digits)), low === null ? "" : ` (${signed(scale * low, digits)} to ${signed(scale * high, digits)})`];
  const rows = others.map((b) => {
    const inB = promptsOf(b), both = [...inA].filter(([same]) => inB.has(same)).map(([same, x]) => [x, inB.get(same)]);
    const known = both.filter(([x, y]) => x.accuracy !== null && y.accuracy !== null);
    if (!both.length) return h("tr", {}, h("th", { scope: "row" }, b.name), h("td", { colspan: 4 }, "no prompt in common"));
    const of = (pairs, name) => pairedDifference(pairs.map(([x, y]) => y[name] - x[name]));
    const mean = (k) => known.reduce((sum, pair) => sum + pair[k].accuracy, 0) / known.length;
    return h("tr", {}, h("th", { scope: "row" }, b.name), h("td", {}, thousands(both.length)),
      h("td", {}, known.length ? `${percent(mean(0))} → ${percent(mean(1))}` : "–"),
      h("td", {}, known.length ? show(of(known, "accuracy"), 100, 1) : "–"), h("td", {}, show(of(both, "length"), 1, 1)));
  });
  return h("div", {}, h("table", { class: "compare-table" }, h("thead", {}, h("tr", {}, ["", "prompts in common", "accuracy", "difference in points (95 %)", `length in ${unitWord()}s (95 %)`].map((name) => h("th", { scope: "col" }, name)))), h("tbody", {}, rows)),
    h("p", { class: "quiet" }, `Each against ${a.name}, paired by prompt; intervals by Student's t over prompts. For exact tests see ktae compare.`));
}

function wonAndLost(a, b) {
  const inA = promptsOf(a), inB = promptsOf(b);
  const moved = [...inA].filter(([same, x]) => x.accuracy !== null && (inB.get(same)?.accuracy ?? null) !== null).map(([same, x]) => ({ x, y: inB.get(same), by: inB.get(same).accuracy - x.accuracy }));
  const list = (name, rows) => h("section", { class: "side", "aria-label": name }, h("h3", {}, `${name}: ${thousands(rows.length)}`),
    h("ul", { class: "won" }, rows.slice(0, 200).map(({ x, y }) => h("li", {},
      h("b", {}, `${percent(x.accuracy)} → ${percent(y.accuracy)} `), h("a", { href: filtered({ group: x.g }) }, a.name), " ", h("a", { href: filtered({ group: y.g }) }, b.name),
      h("div", { class: "quiet", dir: "auto" }, onOneLine((report.texts.prompt[y.g] ?? groupLabel(y.g)).slice(0, 140)))))));
  return h("section", { class: "pane", "aria-label": "Problems won and lost" }, h("h2", {}, `From ${a.name} to ${b.name}`),
    h("div", { class: "sides" }, list("Won", moved.filter(({ by }) => by > 0).sort((p, q) => q.by - p.by)), list("Lost", moved.filter(({ by }) => by < 0).sort((p, q) => p.by - q.by))),
    h("p", { class: "quiet" }, `${thousands(moved.filter(({ by }) => by === 0).length)} prompts have the same accuracy.`));
}

// The curves of several runs, one over the other.
function overlays(sides) {
  const runs = report.training.runs;
  if (!runs?.length) return null;
  const names = [...new Set(runs.flatMap(({ series }) => series.map(({ name }) => name)))];
  const key = h("p", {}, sides.map((side, i) => { const mark = h("i", { class: "key" }); mark.style.setProperty("--of", `var(${SIDE_COLOURS[i]})`); return h("span", {}, mark, `${side.name}  `); }));
  return h("section", { class: "pane", "aria-label": "Curves of the runs" }, h("h2", {}, "Curves"), key,
    h("div", { class: "charts" }, names.map((name) => {
      const lines = sides.map((side, i) => ({ ...runs.find(({ run }) => run === side.run), colour: SIDE_COLOURS[i] })).filter(({ series }) => series?.some((x) => x.name === name));
      return h("figure", {}, h("figcaption", {}, name), overlay(name, lines.map(({ steps, series, colour }) => ({ steps, colour, values: series.find((x) => x.name === name).values }))));
    })));
}

function overlay(name, lines) {
  const steps = [...new Set(lines.flatMap((line) => line.steps))].sort((x, y) => x - y);
  const range = span(lines.flatMap(({ values }) => values.filter((value) => value !== null)));
  const pictures = lines.map(({ steps: its, values }) => curve(steps, steps.map((step) => values[its.indexOf(step)] ?? null), { name, range }));
  const picture = pictures[0];
  pictures.forEach((other, i) => other.querySelectorAll("path").forEach((line) => { line.style.stroke = `var(${lines[i].colour})`; picture.append(line); }));
  return picture;
}
