// The turns of a group's rollouts: a row for each, and what was done in the states that they share.

const MOST_TURNS = 24; // of a rollout that are drawn, and steps of the tree
const MOST_CHOICES = 8; // of a state in the tree; the others are counted
const FIRST_TOKENS = 40; // of a turn, for its first words

// The stretches that the policy wrote, each with where its observation begins (ktae.turns).
function turnsOf(rollout) {
  const edges = [0, ...(report.rollouts.holes[rollout] ?? []), report.rollouts.length[rollout]], turns = [];
  for (let i = 0; i < edges.length; i += 2) {
    const [start, stop] = edges.slice(i, i + 2);
    if (stop > start) turns.push({ seen: turns.at(-1)?.stop ?? start, start, stop });
  }
  return turns;
}

function turnsPane(g, rows, group) {
  const states = report.groups.states[g];
  if (!states) return null;
  const turns = new Map(rows.map((rollout) => [rollout, turnsOf(rollout)]));
  return h("details", { class: "pane turns", open: true }, h("summary", {}, h("h3", {}, "Turns")),
    turnRows(g, turns, group),
    stateTable(states),
    h("details", { class: "tree" }, h("summary", {}, "As a tree: from the prompt on, while two or more rollouts go the same way"), turnTree([...turns], 0)));
}

function turnRows(g, turns, group) {
  const creditIn = (rollout, { start, stop }) => {
    let sum = 0;
    for (let t = start; t < stop; t++) sum += creditOf(rollout, t, group);
    return sum;
  };
  const first = report.groups.first[g], drawn = [...turns].map(([rollout, all]) => [rollout, all.slice(0, MOST_TURNS).map((turn) => ({ ...turn, credit: creditIn(rollout, turn) })), all.length]);
  const scale = Math.max(...drawn.flatMap(([, all]) => all.map(({ credit }) => Math.abs(credit)))) || 1;
  const most = Math.max(...drawn.map(([, all]) => all.length));
  const head = h("tr", {}, h("th", { scope: "col" }, "Rollout"), Array.from({ length: most }, (_, n) => h("th", { scope: "col" }, `Turn ${n + 1}`)));
  const body = drawn.map(([rollout, all, n]) => h("tr", {},
    h("th", { scope: "row" }, `${rollout - first + 1} `, h("span", { class: "quiet" }, verdictName(rollout))),
    all.map(({ start, stop, credit }) => h("td", { class: shadeClass("credit", credit, scale) },
      h("a", { href: fragment({ rollout: rollout - first, token: start }), dir: "auto" }, inShort(idsOf(rollout).subarray(start, Math.min(stop, start + FIRST_TOKENS)))),
      h("small", {}, signed(credit, 2)))),
    n > all.length ? h("td", { class: "quiet" }, `${n - all.length} more`) : null));
  return scrollable("Turns", h("table", { class: "turn-rows" }, h("caption", {}, "First words and the sum of the credit"), h("thead", {}, head), h("tbody", {}, body)));
}

const scrollable = (name, table) => h("div", { class: "turn-box", tabindex: 0, role: "region", "aria-label": `${name}, scrollable` }, table);

// On one line, as much of a text as its first tokens are.
function inShort(ranks) {
  const text = onOneLine(runsOf(ranks).map((run) => run.text).join("").trim().replace(/\s+/g, " ")) || "(empty)";
  return text.length > 90 ? `${text.slice(0, 89)}…` : text;
}

const seenText = (ranks) => (ranks.length ? h("code", { dir: "auto" }, inShort(ranks)) : h("b", {}, "The prompt"));

// How many of some rollouts are right, of those with a verdict.
function scoreOf(rollouts) {
  const known = rollouts.map((rollout) => report.rollouts.correct[rollout]).filter((correct) => correct !== null);
  return dots(known.filter((correct) => correct === 1).length, known.length);
}

function stateTable(states) {
  const finished = (all) => all.filter((rollout) => !leftOut(rollout));
  const body = states.map(({ seen, rollouts, choices, others }) => {
    const n = finished(rollouts).length, here = choices.map((choice) => ({ ...choice, rollouts: finished(choice.rollouts) }));
    if (n < 2) return null;
    const rows = here.filter((choice) => choice.rollouts.length).map(({ done, rollouts }) => [h("td", {}, h("code", { dir: "auto" }, inShort(done))), h("td", { class: "narrow" }, `${rollouts.length} of ${n}`), h("td", { class: "narrow" }, scoreOf(rollouts))]);
    if (others) rows.push([h("td", { class: "quiet", colspan: 3 }, `${thousands(others)} other turns`)]);
    const state = h("th", { scope: "rowgroup", rowspan: rows.length }, seenText(seen), h("small", {}, `${n} rollouts`));
    return h("tbody", {}, rows.map((cells, i) => h("tr", {}, i ? null : state, cells)));
  });
  const head = ["State", "What was done", "by", "right"].map((name) => h("th", { scope: "col" }, name));
  return scrollable("Shared states", h("table", { class: "compare-table" }, h("caption", {}, "States that rollouts share"), h("thead", {}, h("tr", {}, head)), body));
}

// Of [rollout, turns] that went the same way for `n` turns: what each state is, and what was done.
function turnTree(ways, n) {
  const there = ways.filter(([, turns]) => turns.length > n);
  if (there.length < 2 || n === MOST_TURNS) return null;
  const by = (ends) => (all) => [...Map.groupBy(all, ([rollout, turns]) => idsOf(rollout).subarray(...ends(turns[n])).join()).values()].sort((x, y) => y.length - x.length);
  const bySeen = by(({ seen, start }) => [seen, start]), byDone = by(({ start, stop }) => [start, stop]);
  const textOf = ([[rollout, turns]], from, to) => idsOf(rollout).subarray(turns[n][from], Math.min(turns[n][to], turns[n][from] + FIRST_TOKENS));
  return h("ul", { class: "turn-tree" }, bySeen(there).filter((same) => same.length > 1).map((same) => {
    const choices = byDone(same), left = choices.length - MOST_CHOICES;
    return h("li", {}, seenText(textOf(same, "seen", "start")), h("ul", {},
      choices.slice(0, MOST_CHOICES).map((all) => h("li", {}, h("code", { dir: "auto" }, inShort(textOf(all, "start", "stop"))), " ", scoreOf(all.map(([rollout]) => rollout)), turnTree(all, n + 1))),
      left > 0 ? h("li", { class: "quiet" }, `${thousands(left)} other turns`) : null));
  }));
}
