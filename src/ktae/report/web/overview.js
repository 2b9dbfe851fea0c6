// The first screen: what to act on, four numbers, how far to believe the colours, and about the dump.

function drawOverview(main) {
  const { tiles, models, notes } = report;
  const side = [models ? numberTable(models) : null, notes.length ? notesBox() : null, chartsTeaser()];
  main.replaceChildren(
    h(
      "div",
      { class: "overview" },
      headline(),
      h("section", { class: "tiles", "aria-label": "In numbers" }, tiles.map(tile)),
      h("div", { class: "columns" }, h("div", {}, findingList(), adviceBox()), h("div", {}, side)),
    ),
  );
}

// The finding to act on first.
function headline() {
  const [first] = report.findings;
  return h(
    "section",
    { class: `headline tone-${first.tone}`, "aria-label": "What to act on first" },
    h("h2", {}, spellOut(first.sentence)),
    h("p", {}, h("b", {}, "How sure: "), `${spellOut(first.sure)}.`),
    h("p", {}, spellOut(first.about)),
    findingLinks(first),
  );
}

function findingLinks(finding) {
  const { example, link, chips } = finding;
  const all = finding.kind === "view" ? "Look at it" : `All ${findingCount(finding)}`;
  return h(
    "p",
    { class: "chips" },
    example ? h("a", { class: "chip strong", href: linkTo(example) }, "Example →") : null,
    link && !(link.view === "overview") ? h("a", { class: "chip", href: linkTo(link) }, `${all} →`) : null,
    chips.map(tokenChip),
  );
}

// A token and what is said of it, as a link to its contexts.
function tokenChip({ id, text, about }) {
  const code = h("code", { dir: "auto" }, onOneLine(text) || `⟨#${id}⟩`);
  return h("a", { class: "chip", href: linkTo({ view: "tokens", id }) }, code, ` ${about}`);
}

function findingList() {
  const rest = report.findings.slice(1);
  if (!rest.length) return null;
  const items = rest.map(finding =>
    h(
      "li",
      { class: `tone-${finding.tone}` },
      h("h3", {}, spellOut(finding.sentence)),
      remark(`${spellOut(finding.about)} (${spellOut(finding.sure)})`),
      findingLinks(finding),
    ),
  );
  return pane("More findings", h("ol", { class: "findings" }, items));
}

// How far to believe the colours, in the words of the advice; its tests are folded.
function adviceBox() {
  const { sentences, tests } = report.advice;
  return pane(
    "Can single colours be read?",
    h("p", {}, "The page is coloured by ", h("b", {}, report.credit.name), "."),
    h("p", {}, spellOut(sentences.join(" "))),
    tests ? h("details", { id: "believe" }, h("summary", {}, "The tests"), numberTable(tests)) : null,
  );
}

function pane(name, ...children) {
  return h("section", { class: "pane", "aria-label": name }, h("h2", {}, name), children);
}

// A table of Python's: names and numbers, as they are shown.
function numberTable({ title, about, columns, rows }) {
  const head = h(
    "tr",
    {},
    columns.map(name => (name ? h("th", { scope: "col" }, name) : h("td", {}))),
  );
  const row = ({ cells: [name, ...numbers], link, strong }) => {
    const text = strong ? h("b", {}, onOneLine(name)) : onOneLine(name);
    const cell = link ? h("a", { href: linkTo(link) }, text) : text;
    return h(
      "tr",
      {},
      h("th", { scope: "row" }, cell),
      numbers.map(number => h("td", {}, number)),
    );
  };
  const table = h("table", { class: "numbers" }, h("thead", {}, head), h("tbody", {}, rows.map(row)));
  return pane(title, about ? remark(about) : null, scrollable(title, table));
}

const scrollable = (name, table) =>
  h("div", { class: "wide-box", tabindex: 0, role: "region", "aria-label": `${name}, scrollable` }, table);

function tile({ number, name, about, picture, caption }) {
  const text = h("div", { class: "tile-text" }, h("b", {}, number), h("span", {}, name), h("small", {}, about));
  return h(
    "div",
    { class: "tile" },
    text,
    picture ? h("figure", {}, histogram(picture), h("figcaption", {}, caption)) : null,
  );
}

function notesBox() {
  const notes = report.notes.map(({ severe, title, text }) =>
    h(
      "details",
      { class: severe ? "note severe" : "note", open: severe },
      h("summary", {}, onOneLine(title)),
      h("p", {}, spellOut(text)),
    ),
  );
  const box = pane("About this dump", notes);
  box.id = "notes";
  return box;
}

function chartsTeaser() {
  const known = report.charts.filter(({ name }) => ["accuracy", "response length"].includes(name));
  if (!known.length) return null;
  const more = h("p", {}, h("a", { href: fragment({ view: "training" }) }, "All curves, and tokens over steps"));
  return pane("Over training", lineKey(known[0].lines), chartGrid(known), more);
}
