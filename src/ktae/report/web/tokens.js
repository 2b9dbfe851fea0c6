// All tokens: a table, and the contexts of the one picked.

const tokenView = { query: "", sorted: { key: "impact", down: true }, least: 2 };
const AROUND = 14; // tokens on each side of a context
const SHARES =
  "Shares are of the responses of mixed groups. p is over groups; a token in bold is beyond chance among all tokens.";
const PER_SIDE = 25; // contexts shown before "more"

const tokenRows = memo(vocabulary => {
  const { id, a, b, groups, impact, credit, p, beyond } = vocabulary;
  const most = Math.max(...credit.map(Math.abs), 1e-9);
  return id.map((_, rank) => ({
    rank,
    id: id[rank],
    text: tokenLabel(rank),
    n: a[rank] + b[rank],
    shareCorrect: a[rank] / report.n_correct,
    shareIncorrect: b[rank] / report.n_incorrect,
    groups: groups[rank],
    impact: impact[rank],
    credit: credit[rank],
    p: p[rank],
    beyond: beyond[rank] === 1,
    shade: shadeClass("credit", credit[rank], most),
  }));
});

function textCell({ text, beyond }) {
  const code = h("code", { dir: "auto" }, text);
  return beyond ? h("b", {}, code) : code;
}

const TOKEN_COLUMNS = [
  { name: "text", class: "token-cell", cell: textCell, sort: row => row.text },
  { name: "id", class: "number wide", cell: row => String(row.id) },
  { name: "impact", class: "number", cell: row => signed(row.impact, 1), sort: row => Math.abs(row.impact) },
  { name: "credit", class: "number", cell: row => h("span", { class: `pill ${row.shade}` }, signed(row.credit)) },
  { name: "p", class: "number", cell: row => pText(row.p), sort: row => -row.p },
  { name: "correct", class: "number", cell: row => percent(row.shareCorrect), sort: row => row.shareCorrect },
  { name: "incorrect", class: "number", cell: row => percent(row.shareIncorrect), sort: row => row.shareIncorrect },
  { name: "groups", class: "number wide", cell: row => thousands(row.groups) },
].map(column => ({ sort: row => row[column.name], ...column, key: column.name }));

function drawTokens(main) {
  const rows = tokenRows(report.vocabulary);
  const compared = rows.filter(row => row.n > 0);
  const base = compared.length ? compared : rows;
  const chosen = state.id === null ? null : rows.find(row => row.id === state.id);
  const holder = h("div", { class: "table-holder" });
  const fill = () => {
    const query = tokenView.query.toLowerCase();
    const matches = row => query === "" || row.text.toLowerCase().includes(query) || String(row.id) === query;
    const fits = base.filter(row => matches(row) && (row.n >= tokenView.least || !compared.length));
    const onsort = key => {
      tokenView.sorted = { key, down: tokenView.sorted.key === key ? !tokenView.sorted.down : key !== "text" };
      fill();
      holder.querySelector(`button[data-key="${key}"]`)?.focus();
    };
    holder.replaceChildren(
      h("p", { class: "quiet", role: "status" }, `${thousands(fits.length)} of ${counted(base.length, report.unit)}`),
      virtualTable({
        label: inUnits("Tokens"),
        columns: TOKEN_COLUMNS,
        rows: sortRows(fits, TOKEN_COLUMNS, tokenView.sorted),
        sorted: tokenView.sorted,
        onpick: row => go({ id: row.id }),
        pickLabel: row => `Contexts of ${row.text}`,
        picked: row => row.id === state.id,
        onsort,
      }),
    );
  };
  fill();
  const search = h("input", {
    type: "search",
    class: "search",
    placeholder: "text or id",
    "aria-label": `Search ${report.unit}s`,
    value: tokenView.query,
    oninput: event => ((tokenView.query = event.target.value), fill()),
  });
  const least = h("input", {
    type: "number",
    min: 1,
    value: String(tokenView.least),
    "aria-label": "Least number of responses with it",
    onchange: event => ((tokenView.least = Math.max(1, Number(event.target.value) || 1)), fill()),
  });
  const impact = "credit × how many more or fewer correct responses have it than chance gives, over groups";
  const about = `Credit and impact (${impact}) are those of ${report.credit.name}. ${SHARES}`;
  const bar = h("div", { class: "bar" }, search, h("span", {}, "in at least ", least, " responses"));
  const title = ["Where ", h("code", { dir: "auto" }, chosen?.text ?? ""), " occurs"];
  const contexts = chosen
    ? [h("h2", {}, title), contextList(chosen.rank)]
    : [remark("Pick one in the table to read where it occurs.")];
  main.replaceChildren(
    h(
      "div",
      { class: "two" },
      pane(inUnits("Tokens"), remark(inUnits(about)), bar, holder),
      h("section", { class: "pane", id: "contexts", "aria-label": "Contexts" }, contexts),
    ),
  );
  if (chosen) document.getElementById("contexts").scrollIntoView({ block: "nearest" });
}

// The first place of a token in each response that has it, by outcome.
function occurrences(rank) {
  const places = { 1: [], 0: [], null: [] };
  const { tokens, offsets, rollouts } = report;
  let [rollout, last] = [0, -1];
  for (let at = tokens.indexOf(rank); at >= 0; at = tokens.indexOf(rank, at + 1)) {
    while (offsets[rollout + 1] <= at) rollout++;
    if (rollout !== last) places[rollouts.correct[rollout]].push([rollout, at - offsets[rollout]]);
    last = rollout;
  }
  return places;
}

function contextList(rank) {
  const places = occurrences(rank);
  const sides = Object.entries(OUTCOMES).map(([name, correct]) => [name, places[correct]]);
  const side = ([name, list]) => {
    const items = h("ul", { class: "contexts" });
    const more = h("button", { type: "button" });
    let shown = 0;
    const grow = () => {
      items.append(...list.slice(shown, shown + PER_SIDE).map(([rollout, t]) => contextLine(rollout, t)));
      shown = Math.min(list.length, shown + PER_SIDE);
      more.textContent = `${thousands(list.length - shown)} more`;
      more.hidden = shown === list.length;
    };
    more.addEventListener("click", grow);
    grow();
    const title = `${name[0].toUpperCase()}${name.slice(1)}: ${counted(list.length, "response")}`;
    return h("section", { class: "side", "aria-label": `In ${name} responses` }, h("h3", {}, title), items, more);
  };
  return h("div", { class: "sides" }, sides.filter(([name, list]) => list.length || name !== "unknown").map(side));
}

function contextLine(rollout, t) {
  const ids = idsOf(rollout);
  const from = Math.max(0, t - AROUND);
  const to = Math.min(ids.length, t + AROUND + 1);
  const text = (a, b) => spellOut(joined(ids.subarray(a, b)).replace(/\s+/g, " "));
  const g = report.groupOf[rollout];
  const number = numberOf(rollout);
  const shade = shadeClass("credit", creditAt(rollout, t), largestIn(g));
  const name = `${groupName(g)}, response ${number + 1}`;
  const mark = h("mark", { class: shade }, tokenLabel(ids[t]));
  const ends = [from > 0 ? "…" : "", to < ids.length ? "…" : ""];
  return h(
    "li",
    {},
    h("a", { href: filtered({ group: g, rollout: number, token: t }) }, name),
    h("p", { dir: "auto" }, ends[0], text(from, t), mark, text(t + 1, to), ends[1]),
  );
}
