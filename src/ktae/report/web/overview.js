// The first screen: what to conclude, four numbers, what to look at, and how far to believe it.

function drawOverview(main) {
  const { groups, totals } = report;
  const known = groups.known.reduce((sum, n) => sum + n, 0), right = groups.right.reduce((sum, n) => sum + n, 0);
  const count = (kind) => groups.label.filter((_, g) => GROUP_KINDS[kind][1](g)).length;
  main.replaceChildren(h("div", { class: "overview" },
    verdictBanner(),
    h("section", { class: "tiles", "aria-label": "In numbers" },
      tile(thousands(totals.rollouts), "rollouts", counted(totals.tokens, unitWord()), rewardBars(), "by reward"),
      tile(thousands(groups.label.length), "groups", "prompts with their rollouts", accuracyBars(), "by accuracy"),
      tile(known ? percent(right / known) : "–", "accuracy", `${thousands(right)} of ${thousands(known)} right`, lengthBars(), "length of right and wrong"),
      tile(thousands(count("mixed")), "mixed groups", "only these get credit", kindBar(count), "all wrong, mixed, all right")),
    compareTeaser(),
    h("div", { class: "columns" }, lookAt(), h("div", {}, modelsTable(), notesBox(), stepsTeaser())),
    believeBox()));
}

const VERDICT_CLASS = { take: "good", "no more than a baseline": "warned", "nothing shown": "warned" };

function verdictBanner() {
  const { held_out: found } = report;
  const [first, ...rest] = found.none ? [`Nothing can be said: ${found.none}`] : found.lines;
  const text = first.replace(/^VERDICT: /, "");
  return h("section", { class: `verdict-banner ${VERDICT_CLASS[found.verdict] ?? "unsure"}`, "aria-label": "Verdict" },
    h("span", { class: "who" }, "Verdict"), h("h2", {}, spellOut(text[0].toUpperCase() + text.slice(1))),
    rest.length ? h("p", { class: "quiet" }, spellOut(rest.join(" "))) : null, pooledWarning());
}

// Of several models a token may be one model's way of writing.
function pooledWarning() {
  const { pooled, models } = report.rollouts;
  return pooled ? h("p", { class: "warn" }, `${counted(models.length, "model")} are pooled in these groups. A ${unitWord()} may be the handwriting of one that is often right, and say nothing of reasoning.`) : null;
}

function modelsTable() {
  const { models } = report;
  if (models.length < 2) return "";
  const head = h("tr", {}, ["", "rollouts", "accuracy", `mean ${unitWord()}s`].map((name) => h("th", { scope: "col" }, name)));
  const rows = [...models].sort((x, y) => y.right / y.known - x.right / x.known).map(({ name, rollouts, known, right, length }) => h("tr", {}, h("th", { scope: "row" }, h("a", { href: filtered({ model: name }) }, onOneLine(name))),
    h("td", {}, thousands(rollouts)), h("td", {}, known ? percent(right / known) : "–"), h("td", {}, thousands(Math.round(length)))));
  return h("section", { class: "pane", "aria-label": "Models" }, h("h2", {}, "Models"), h("table", { class: "numbers models" }, h("thead", {}, head), h("tbody", {}, rows)));
}

function tile(number, name, about, picture, caption) {
  return h("div", { class: "tile" }, h("div", { class: "tile-text" }, h("b", {}, number), h("span", {}, name), h("small", {}, about)),
    picture ? h("figure", {}, picture, h("figcaption", {}, caption)) : null);
}

const BARS_HEIGHT = 44;

// Bars that lead to what they count: [{ parts: [[n, class]], href, label }].
function bars(name, list) {
  const most = Math.max(1, ...list.map(({ parts }) => parts.reduce((sum, [n]) => sum + n, 0)));
  const width = 200 / list.length;
  const picture = svg("svg", { viewBox: `0 0 200 ${BARS_HEIGHT + 2}`, class: "bars-picture", role: "group", "aria-label": name, preserveAspectRatio: "none" });
  list.forEach(({ parts, href, label }, i) => {
    const total = parts.reduce((sum, [n]) => sum + n, 0);
    if (!total) return;
    const link = svg("a", { href, "aria-label": label, role: "link", tabindex: 0 }, svg("title", {}, label), svg("rect", { x: i * width, y: 0, width, height: BARS_HEIGHT + 2, class: "hit-area" }));
    let top = BARS_HEIGHT + 1;
    for (const [n, kind] of parts) {
      const height = n ? Math.max(1.5, (n / most) * BARS_HEIGHT) : 0;
      top -= height;
      link.append(svg("rect", { x: i * width + width * 0.08, y: Math.max(0, top), width: width * 0.84, height, class: kind, rx: Math.min(1.5, width / 6) }));
    }
    picture.append(link);
  });
  return picture;
}

function rewardBars() {
  const { edges, counts, values } = report.histograms.reward;
  if (!counts.length) return null;
  const range = (i) => (values ? [edges[i], edges[i]] : [edges[i], edges[i + 1]]);
  const name = (i) => (values ? `reward ${short(edges[i])}` : `reward ${short(edges[i])} to ${short(edges[i + 1])}`);
  return bars("Rollouts by reward", counts.map((n, i) => ({ parts: [[n, "plain-bar"]], href: filtered({ reward: range(i).map((x) => Number(x.toPrecision(6))) }), label: `${name(i)}: ${counted(n, "rollout")}` })));
}

function accuracyBars() {
  const { counts } = report.histograms.accuracy, last = Math.max(1, counts.length - 1);
  return bars("Groups by accuracy", counts.map((n, i) => ({
    parts: [[n, i === 0 ? "wrong-bar" : i === last ? "right-bar" : "plain-bar"]],
    href: filtered({ accuracy: [Math.max(0, (i - 0.5) / last), Math.min(1, (i + 0.5) / last)].map((x) => Number(x.toFixed(4))) }),
    label: `${percent(i / last)} right: ${counted(n, "group")}` })));
}

function lengthBars() {
  const { edges, right, wrong } = report.histograms.length, last = right.length - 1;
  return bars("Rollouts by length", right.map((n, i) => ({
    parts: [[wrong[i], "wrong-bar"], [n, "right-bar"]],
    href: filtered({ length: [Math.round(edges[i]), i === last ? 1e9 : Math.round(edges[i + 1])] }),
    label: `${thousands(Math.round(edges[i]))} ${i === last ? "or more" : `to ${thousands(Math.round(edges[i + 1]))}`} ${unitWord()}s: ${thousands(n)} right, ${thousands(wrong[i])} wrong` })));
}

function kindBar(count) {
  return bars("Groups by kind", [["wrong", "wrong-bar"], ["mixed", "plain-bar"], ["right", "right-bar"]].map(([kind, style]) => ({
    parts: [[count(kind), style]], href: filtered({ groups: kind }), label: `${GROUP_KINDS[kind][0]}: ${counted(count(kind), "group")}` })));
}

// What was found, each a filter.
function lookAt() {
  const items = report.findings.map((finding) => h("li", {},
    finding.kind === "tokens" ? h("b", { class: "finding-title" }, finding.title)
      : h("a", { class: "finding-title", href: filtered({ finding: finding.key, view: "rollouts" }) }, h("span", { class: "count" }, findingCount(finding)), finding.title),
    finding.kind === "tokens" ? h("div", { class: "chips" }, finding.of_tokens.map(({ id, text, right, wrong }) =>
      h("a", { class: "chip", href: fragment({ view: "tokens", id }) }, h("code", { dir: "auto" }, onOneLine(text) || `⟨#${id}⟩`), ` in ${percent(right)} of right, ${percent(wrong)} of wrong`))) : null,
    h("p", { class: "quiet" }, spellOut(finding.about))));
  const { regraded } = report;
  const graded = regraded ? `${thousands(regraded.graded)} of ${thousands(regraded.gradable)} rollouts with a reference answer were graded again${regraded.total ? "" : ": all verdicts agree"}.${regraded.undecided ? ` ${thousands(regraded.undecided)} could not be decided.` : ""}${regraded.stopped ? " Grading ended early: too many ran out of time." : ""}` : "";
  const asks = regraded?.asks_for_more ? h("p", { class: "warn" }, "Most wrong rollouts give the reference answer. Either the dump's verifier misses most right answers, or the prompt asks for more than the answer, as in the game of 24. So no single rollout is flagged for it.") : null;
  return h("section", { class: "pane", "aria-label": "What to look at" }, h("h2", {}, "What to look at"), asks,
    items.length ? h("ul", { class: "findings" }, items) : h("p", {}, "Nothing stands out."), graded ? h("p", { class: "quiet" }, graded) : null);
}

function notesBox() {
  if (!report.notes.length) return null;
  return h("section", { class: "pane", "aria-label": "About this dump", id: "notes" }, h("h2", {}, "About this dump"),
    report.notes.map((note) => h("details", { class: note.severe ? "note severe" : "note", open: note.severe }, h("summary", {}, onOneLine(note.title)), h("p", {}, spellOut(note.text)))));
}

function compareTeaser() {
  const sides = sidesHere();
  if (sides.length < 2 || sides[0].run === undefined) return "";
  return h("section", { class: "pane", "aria-label": "Runs" }, h("h2", {}, "Runs beside each other"), differences(sides[0], sides.slice(1)),
    h("p", {}, h("a", { href: fragment({ view: "compare" }) }, "Problems won and lost, and the curves")));
}

function stepsTeaser() {
  const { steps, series } = report.training;
  if (!steps.length) return null;
  const known = series.filter(({ name }) => ["accuracy", "response length"].includes(name));
  return h("section", { class: "pane", "aria-label": "Over training" }, h("h2", {}, "Over training"),
    h("div", { class: "charts" }, known.map(({ name, values }) => h("figure", {}, h("figcaption", {}, name), curve(steps, values, { name })))),
    h("p", {}, h("a", { href: fragment({ view: "training" }) }, inUnits("All curves, and tokens over steps"))));
}
