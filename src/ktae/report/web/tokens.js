// All tokens: a scatter, a table, and the contexts of the one picked.

const tokenView = { query: "", sorted: { key: "impact", down: true }, least: 2 };

function tokenRows() {
  const { vocabulary, groups } = report;
  let nTrue = 0, nFalse = 0;
  groups.right.forEach((right, g) => {
    if (!isMixed(g)) return;
    nTrue += right;
    nFalse += groups.known[g] - right;
  });
  const rows = vocabulary.id.map((id, rank) => ({
    id, rank, text: tokenLabel(rank),
    mark: vocabulary.mark[rank], p: vocabulary.p[rank], faint: vocabulary.p[rank] >= LEVEL, a: vocabulary.a[rank], b: vocabulary.b[rank], groups: vocabulary.groups[rank],
    impact: vocabulary.impact[rank], credit: vocabulary.credit[rank],
    shareTrue: nTrue ? vocabulary.a[rank] / nTrue : 0, shareFalse: nFalse ? vocabulary.b[rank] / nFalse : 0,
  }));
  return { rows, nTrue, nFalse };
}

function tokenClass(row) {
  const name = shadeClass("credit", row.credit, largestOnPage(report.presets[0]));
  return name && row.faint ? `${name[0]}0` : name;
}

const TOKEN_COLUMNS = [
  { name: "text", key: "text", class: "token-cell", cell: (row) => h("span", {}, h("code", { dir: "auto" }, row.text), row.mark ? h("span", { class: "flag", title: MARKS[row.mark][1] }, MARKS[row.mark][0]) : null), sort: (row) => row.text },
  { name: "id", key: "id", class: "number wide", cell: (row) => String(row.id), sort: (row) => row.id },
  { name: "impact", key: "impact", class: "number", title: "credit × |right rollouts with it − as many as chance gives|, over groups", cell: (row) => signed(row.impact, 1), sort: (row) => Math.abs(row.impact) },
  { name: "credit", key: "credit", class: "number", title: "mean over the groups counted on the right, weighted by |right rollouts with it − as many as chance gives|", cell: (row) => h("span", { class: `pill ${tokenClass(row)}` }, signed(row.credit)), sort: (row) => row.credit },
  { name: "p", key: "p", class: "number", title: "over groups: exact in up to 20, else Mantel-Haenszel; identical rollouts count once; not corrected for picking among many tokens. ktae score has the same", cell: (row) => pText(row.p), sort: (row) => -row.p },
  { name: "right", key: "shareTrue", class: "number", cell: (row) => percent(row.shareTrue), sort: (row) => row.shareTrue },
  { name: "wrong", key: "shareFalse", class: "number", cell: (row) => percent(row.shareFalse), sort: (row) => row.shareFalse },
  { name: "groups", key: "groups", class: "number wide", title: "mixed groups in which more or fewer right rollouts have it than chance gives: those that impact and credit are over", cell: (row) => thousands(row.groups), sort: (row) => row.groups },
];

function drawTokens(main) {
  const { rows, nTrue, nFalse } = tokenRows();
  const compared = rows.filter((row) => row.a + row.b > 0);
  const chosen = state.id === null ? null : rows.find((row) => row.id === state.id);
  const pick = (row) => { go({ id: row.id }); document.getElementById("contexts")?.scrollIntoView({ block: "nearest" }); };
  const holder = h("div", { class: "table-holder" });
  const fill = () => {
    const query = tokenView.query.toLowerCase();
    const base = compared.length ? compared : rows;
    const fits = base.filter((row) => (query === "" || row.text.toLowerCase().includes(query) || String(row.id) === query) && (row.a + row.b >= tokenView.least || !compared.length));
    holder.replaceChildren(h("p", { class: "quiet", role: "status" }, `${thousands(fits.length)} of ${counted(base.length, unitWord())}${compared.length ? " in mixed groups" : ""}`),
      virtualTable({ label: unitName(), columns: TOKEN_COLUMNS, rows: sortRows(fits, TOKEN_COLUMNS, tokenView.sorted), sorted: tokenView.sorted, onpick: pick, pickLabel: (row) => `Contexts of ${row.text}`, picked: (row) => row.id === state.id,
        onsort: (key) => {
          tokenView.sorted = { key, down: tokenView.sorted.key === key ? !tokenView.sorted.down : key !== "text" };
          fill();
          holder.querySelector(`button[data-key="${key}"]`)?.focus();
        } }));
  };
  fill();
  const search = h("input", { type: "search", class: "search", placeholder: "text or id", "aria-label": `Search ${unitWord()}s`, value: tokenView.query, oninput: (event) => { tokenView.query = event.target.value; fill(); } });
  const least = h("input", { type: "number", min: 1, value: String(tokenView.least), "aria-label": "Least number of rollouts with it", onchange: (event) => { tokenView.least = Math.max(1, Number(event.target.value) || 1); drawTokens(main); } });
  const root = h("input", { type: "checkbox", checked: scatterScale.root, onchange: (event) => { scatterScale.root = event.target.checked; plot.repaint(); } });
  const plot = scatter(compared.filter((row) => row.a + row.b >= tokenView.least), { onpick: pick, picked: (row) => row.id === state.id });
  const about = compared.length ? `Shares are of the ${thousands(nTrue)} right and ${thousands(nFalse)} wrong rollouts of mixed groups. Above the diagonal: more in right ones. Faint: chance explains it, p over groups is .05 or more.` : "No group has both right and wrong rollouts, so none has a value.";
  const contexts = h("section", { class: "pane", id: "contexts", "aria-label": "Contexts" }, chosen
    ? [h("h2", {}, "Where ", h("code", { dir: "auto" }, chosen.text), " occurs"), contextList(chosen.rank)]
    : h("p", { class: "quiet" }, "Pick one in the picture or in the table to read where it occurs."));
  main.replaceChildren(h("div", { class: "two" },
    h("div", {},
      h("section", { class: "pane", "aria-label": `Scatter of ${unitWord()}s` }, h("h2", {}, unitName()), pooledWarning(), otherUnits(), h("p", { class: "quiet" }, about),
        compared.length ? h("div", {}, h("label", { class: "check" }, root, " room for rare ones (cube root)"), plot) : null),
      contexts),
    h("section", { class: "pane", "aria-label": `Table of ${unitWord()}s` }, h("div", { class: "bar" }, search, h("label", {}, "in at least ", least, " rollouts")), holder)));
  if (chosen) document.getElementById("contexts").scrollIntoView({ block: "nearest" });
}

// What the tables leave out of the estimator's.
function otherUnits() {
  const settings = report.presets[0];
  return settings.units?.join() === "token" ? null : h("p", { class: "quiet" }, `Of single ${unitWord()}s${settings.tables ? "" : ", by the paper's statistic"}: ${settings.name} rests on more than these.`);
}
