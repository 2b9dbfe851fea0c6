// All tokens: a table, and the contexts of the one picked.

const tokenView = { query: "", sorted: "impact", down: true };
const AROUND = 14; // tokens on each side of a context
const ABOUT =
  "Impact is credit × how many more or fewer correct responses have the token than by chance, summed over groups. " +
  "Shares are of the responses of mixed groups.";

const UNMIXED = "No group has both correct and incorrect responses, so there is nothing to compare tokens by.";

// Each column: a number of a token, by its rank; how that is shown, and what is sorted by.
const column = name => rank => report.vocabulary[name][rank];
const asIs = x => x;
const TOKEN_COLUMNS = {
  text: { of: rank => tokenLabel(rank), show: asIs, by: asIs },
  id: { of: column("id"), show: asIs, by: asIs, wide: true },
  impact: { of: column("impact"), show: x => signed(x, 1), by: Math.abs },
  credit: { of: column("credit"), show: creditPill, by: asIs },
  correct: { of: column("a"), show: n => percent(n / report.n_correct), by: asIs },
  incorrect: { of: column("b"), show: n => percent(n / report.n_incorrect), by: asIs },
  groups: { of: column("groups"), show: thousands, by: asIs, wide: true },
};

function creditPill(credit) {
  report.vocabulary.largest ??= report.vocabulary.credit.reduce((most, x) => Math.max(most, Math.abs(x)), 1e-9);
  return el`<span class="pill ${shadeClass(credit, report.vocabulary.largest)}">${signed(credit)}</span>`;
}

function tokensView() {
  const { id, a, b } = report.vocabulary;
  const all = id.map((_, rank) => rank);
  const often = all.filter(rank => a[rank] + b[rank] > 1);
  const chosen = id.indexOf(state.id);
  const found = el`<div></div>`;
  const fill = changes => {
    Object.assign(tokenView, changes);
    const query = tokenView.query.toLowerCase();
    const fits = rank => tokenLabel(rank).toLowerCase().includes(query) || String(id[rank]) === query;
    const rows = query ? all.filter(fits) : often.length ? often : all;
    const which = !query && often.length ? ", those in at least two responses" : "";
    const count = `${thousands(rows.length)} of ${counted(all.length, report.unit)}${which}`;
    found.replaceChildren(el`<p class="quiet" role="status">${count}</p>`, tokenTable(rows, fill));
  };
  fill({});
  const search = el`<input type="search" class="search" placeholder="text or id" aria-label="Search ${report.unit}s"
    value=${tokenView.query} @input=${event => fill({ query: event.target.value })}>`;
  const about = often.length ? `Credit and impact are those of ${report.estimator}. ${ABOUT}` : UNMIXED;
  return el`<div class="two">
    ${pane(inUnits("Tokens"), remark(inUnits(about)), el`<div class="bar">${search}</div>`, found)}
    <section class="pane" id="contexts" aria-label="Contexts">
      ${chosen < 0 ? remark("Pick one in the table to read where it occurs.") : contexts(chosen)}
    </section>
  </div>`;
}

function tokenTable(rows, fill) {
  const { id } = report.vocabulary;
  const { sorted, down } = tokenView;
  const { of, by } = TOKEN_COLUMNS[sorted];
  const compare = (x, y) => (typeof x === "string" ? x.localeCompare(y) : x - y) * (down ? -1 : 1);
  const ranks = rows
    .map(rank => [by(of(rank)), rank])
    .sort(([x], [y]) => compare(x, y))
    .map(([, rank]) => rank);
  const kind = name => (name === "text" ? "" : `number ${TOKEN_COLUMNS[name].wide ? "wide" : ""}`);
  const head = name => {
    const isSorted = name === sorted;
    const onclick = () => fill({ sorted: name, down: isSorted ? !down : name !== "text" });
    return el`<th scope="col" class=${kind(name)} aria-sort=${isSorted && (down ? "descending" : "ascending")}>
      <button type="button" @click=${onclick}>${name}${isSorted && (down ? " ▾" : " ▴")}</button>
    </th>`;
  };
  const cell = (name, rank) => TOKEN_COLUMNS[name].show(TOKEN_COLUMNS[name].of(rank), rank);
  const isCompared = report.groups.label.some((_, g) => isMixed(g));
  const [first, ...others] = Object.keys(TOKEN_COLUMNS).slice(0, isCompared ? undefined : 1);
  const line = rank =>
    el`<tr class=${id[rank] === state.id && "picked"}>
      <th scope="row">
        <a href=${linkTo({ view: "tokens", id: id[rank] })} aria-label="Contexts of ${tokenLabel(rank)}">
          <code dir="auto">${cell(first, rank)}</code>
        </a>
      </th>
      ${others.map(name => el`<td class=${kind(name)}>${cell(name, rank)}</td>`)}
    </tr>`;
  const body = el`<tbody></tbody>`;
  return el`<div class="scroller" tabindex="0" role="region" aria-label="${inUnits("Tokens")}, scrollable">
    <table aria-label=${inUnits("Tokens")}><thead><tr>${[first, ...others].map(head)}</tr></thead>${body}</table>
    ${growing(body, ranks, line, 200)}
    ${!rows.length && remark("Nothing fits.")}
  </div>`;
}

// Fill a holder with the first of many items; the button that is returned adds more.
function growing(holder, items, draw, step) {
  let shown = 0;
  const grow = () => {
    holder.append(...items.slice(shown, shown + step).map(draw));
    shown = Math.min(items.length, shown + step);
    more.textContent = `${thousands(items.length - shown)} more`;
    more.hidden = shown === items.length;
  };
  const more = el`<button type="button" @click=${grow}></button>`;
  grow();
  return more;
}

// The first place of a token in each response that has it, by outcome.
function contexts(rank) {
  const places = { correct: [], incorrect: [], unknown: [] };
  const { tokens, offsets } = report;
  let [rollout, last] = [0, -1];
  for (let at = tokens.indexOf(rank); at >= 0; at = tokens.indexOf(rank, at + 1)) {
    while (offsets[rollout + 1] <= at) rollout++;
    if (rollout !== last) places[outcomeOf(rollout)].push([rollout, at - offsets[rollout]]);
    last = rollout;
  }
  const side = ([name, list]) => {
    const items = el`<ul class="contexts"></ul>`;
    const more = growing(items, list, contextLine, 25);
    return el`<section class="side" aria-label="In ${name} responses">
      <h3>${capital(name)}: ${counted(list.length, "response")}</h3>
      ${items}${more}
    </section>`;
  };
  const shown = Object.entries(places).filter(([name, list]) => list.length || name !== "unknown");
  return [
    el`<h2>Where <code dir="auto">${tokenLabel(rank)}</code> occurs</h2>`,
    el`<div class="sides">${shown.map(side)}</div>`,
  ];
}

function contextLine([rollout, t]) {
  const ids = idsOf(rollout);
  const [from, to] = [Math.max(0, t - AROUND), Math.min(ids.length, t + AROUND + 1)];
  const text = (a, b) => spellOut(spelled(ids.subarray(a, b)).replace(/\s+/g, " "));
  const [g, number] = [report.groupOf[rollout], numberOf(rollout)];
  const href = linkTo({ view: "rollouts", group: g, rollout: number, token: t });
  return el`<li>
    <a href=${href}>${groupName(g)}, response ${number + 1}</a>
    <p dir="auto">
      ${from > 0 && "…"}${text(from, t)}
      <mark class=${shadeClass(creditAt(rollout, t), largestIn(g))}>${tokenLabel(ids[t])}</mark>
      ${text(t + 1, to)}${to < ids.length && "…"}
    </p>
  </li>`;
}
