// The first screen: what to act on, four numbers, how far to believe the colours, and about the dump.

const remark = text => el`<p class="quiet">${text}</p>`;
const pane = (name, ...children) => el`<section class="pane" aria-label=${name}><h2>${name}</h2>${children}</section>`;
const scrollable = (name, table) =>
  el`<div class="wide-box" tabindex="0" role="region" aria-label="${name}, scrollable">${table}</div>`;

function overviewView() {
  const { findings, advice, tiles, notes } = report;
  const [first, ...rest] = findings;
  return el`<div class="overview">
    <section class="headline tone-${first.tone}" aria-label="What to act on first">
      <h2>${spellOut(first.sentence)}</h2>
      <p><b>How sure: </b>${spellOut(first.sure)}.</p>
      <p>${spellOut(first.about)}</p>
      ${findingLinks(first)}
    </section>
    <section class="tiles" aria-label="In numbers">${tiles.map(tile)}</section>
    <div class="columns">
      <div>
        ${rest.length > 0 && pane("More findings", el`<ol class="findings">${rest.map(findingItem)}</ol>`)}
        ${pane(
          "Can single colours be read?",
          el`<p>The page is coloured by <b>${report.estimator}</b>.</p>`,
          el`<p>${spellOut(advice.sentences.join(" "))}</p>`,
          advice.tests.length > 0 && el`<details><summary>The tests</summary>${testTable(advice)}</details>`,
        )}
      </div>
      <div>
        ${notes.length > 0 && pane("About this dump", notes.map(noteItem))}
        ${teaser()}
      </div>
    </div>
  </div>`;
}

function findingItem(finding) {
  return el`<li class="tone-${finding.tone}">
    <h3>${spellOut(finding.sentence)}</h3>
    ${remark(`${spellOut(finding.about)} (${spellOut(finding.sure)})`)}
    ${findingLinks(finding)}
  </li>`;
}

function findingLinks(finding) {
  const { count, example, link } = finding;
  const all = count ? `All ${findingCount(finding)}` : "Look at it";
  return el`<p class="chips">
    ${example && el`<a class="chip strong" href=${linkTo(example)}>Example →</a>`}
    ${link && link.view !== "overview" && el`<a class="chip" href=${linkTo(link)}>${all} →</a>`}
  </p>`;
}

const testTable = ({ tested, tests }) =>
  numberTable({
    title: "Held-out pairs",
    about: tested,
    columns: ["", "share", "95 %", "permuted labels"],
    rows: tests,
  });

// A table of Python's: names and numbers, as they are shown; the page's estimator is in bold.
function numberTable({ title, about, columns, rows }) {
  const row = ([name, ...numbers]) =>
    el`<tr>
      <th scope="row">${name === report.estimator ? el`<b>${name}</b>` : onOneLine(name)}</th>
      ${numbers.map(number => el`<td>${number}</td>`)}
    </tr>`;
  const table = el`<table class="numbers">
    <thead><tr>${columns.map(name => (name ? el`<th scope="col">${onOneLine(name)}</th>` : el`<td></td>`))}</tr></thead>
    <tbody>${rows.map(row)}</tbody>
  </table>`;
  return pane(title, about && remark(about), scrollable(title, table));
}

function tile({ number, name, about, caption, ends, bars }) {
  return el`<div class="tile">
    <div class="tile-text"><b>${number}</b><span>${name}</span><small>${about}</small></div>
    ${bars.length > 0 && el`<figure>${histogram(caption, ends, bars)}<figcaption>${caption}</figcaption></figure>`}
  </div>`;
}

function noteItem({ severe, text, more }) {
  return el`<details class="note ${severe ? "severe" : ""}" open=${severe}>
    <summary>${onOneLine(capital(text))}</summary><p>${spellOut(more)}</p>
  </details>`;
}

function teaser() {
  const known = report.charts.filter(({ name }) => ["accuracy", "response length"].includes(name));
  const more = el`<p><a href=${linkTo({ view: "training" })}>All curves</a></p>`;
  return known.length > 0 && pane("Over training", lineKey(known[0].lines), chartGrid(known), more);
}
