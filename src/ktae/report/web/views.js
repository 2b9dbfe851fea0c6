// Training, Compare, and the turns of a group.

function drawTraining(main) {
  const { charts } = report;
  const steps = [...new Set(charts.flatMap(({ lines }) => lines.flatMap(line => line.steps)))].sort((x, y) => x - y);
  const at = steps.includes(state.step) ? state.step : steps.at(-1);
  const pictures = h("div");
  const output = h("output", { for: "step" });
  const show = step => {
    output.textContent = String(step);
    pictures.replaceChildren(chartGrid(charts, step));
  };
  const slider = h("input", {
    id: "step",
    type: "range",
    min: 0,
    max: steps.length - 1,
    value: String(steps.indexOf(at)),
    oninput: event => {
      const step = steps[Number(event.target.value)];
      event.target.setAttribute("aria-valuetext", `step ${step}`);
      go({ step }, { quiet: true });
      show(step);
    },
  });
  slider.setAttribute("aria-valuetext", `step ${at}`);
  show(at);
  const about = steps.length > SMOOTHED ? `Thin lines are steps, thick ones a running mean of ${SMOOTHED}.` : null;
  main.replaceChildren(
    pane(
      "Training",
      h("div", { class: "bar" }, h("label", { for: "step" }, "Step "), slider, output),
      lineKey(charts[0].lines),
      pictures,
      about ? remark(about) : null,
    ),
  );
}

let opened = null;

function drawCompare(main) {
  const { comparisons } = report;
  const at = opened ?? report.opened;
  const pick = h(
    "select",
    { "aria-label": "Which two", onchange: event => ((opened = Number(event.target.value)), draw()) },
    comparisons.map(({ a, b }, i) => h("option", { value: String(i), selected: i === at }, `${a} → ${b}`)),
  );
  const { a, b, sentence, rows, won, lost, n_won: nWon, n_lost: nLost, n_same: same } = comparisons[at];
  const names = { title: sentence, about: "", columns: ["", a, b, "difference"].map(onOneLine), rows };
  const box = numberTable(names);
  box.append(
    h("div", { class: "sides" }, problems("Won", nWon, won, a, b), problems("Lost", nLost, lost, a, b)),
    remark(`${thousands(same)} prompts have the same accuracy. Paired by prompt.`),
  );
  if (comparisons.length > 1) box.prepend(pick);
  const curves = report.charts.filter(({ lines }) => lines.length > 1);
  const drawn = curves.length ? pane("Curves", lineKey(curves[0].lines), chartGrid(curves)) : null;
  main.replaceChildren(h("div", { class: "overview" }, box, drawn));
}

function problems(name, n, list, a, b) {
  const item = ({ prompt, change, a: inA, b: inB }) =>
    h(
      "li",
      {},
      h("b", {}, `${change} `),
      h("a", { href: linkTo(inA) }, onOneLine(a)),
      " ",
      h("a", { href: linkTo(inB) }, onOneLine(b)),
      h("div", { class: "quiet", dir: "auto" }, onOneLine(prompt)),
    );
  const items = h("ul", { class: "won", tabindex: 0, "aria-label": name }, list.map(item));
  return h("section", { class: "side" }, h("h3", {}, `${name}: ${thousands(n)}`), list.length ? items : null);
}

// The turns of a group's responses, a row for each, and what was done in the states that they share.
function turnsPane(g) {
  const turns = report.turns[g];
  if (!turns) return null;
  const most = Math.max(...turns.rollouts.map(row => row.length));
  const names = Array.from({ length: most }, (_, n) => h("th", { scope: "col" }, `Turn ${n + 1}`));
  const rows = turns.rollouts.map((row, i) => {
    const rollout = report.groups.first[g] + i;
    const cells = row.map(({ start, text, credit }) =>
      h(
        "td",
        { class: shadeClass("credit", credit, turns.largest) },
        h("a", { href: fragment({ rollout: i, token: start }), dir: "auto" }, onOneLine(text)),
        h("small", {}, signed(credit, 3)),
      ),
    );
    const left = turns.left_out[i] ? h("td", { class: "quiet" }, `${turns.left_out[i]} more`) : null;
    return h("tr", {}, h("th", { scope: "row" }, `${i + 1} ${outcomeName(rollout)}`), cells, left);
  });
  const head = h("tr", {}, h("th", { scope: "col" }, "Response"), names);
  const about = `First words, and the mean credit a ${report.unit} (${report.credit.name})`;
  const table = h("table", { class: "turn-rows" }, h("caption", {}, about), h("thead", {}, head), h("tbody", {}, rows));
  return h(
    "details",
    { class: "pane turns", open: true },
    h("summary", {}, h("h3", {}, "Turns")),
    scrollable("Turns", table),
    turns.states.length ? stateTable(turns.states) : null,
  );
}

function stateTable(states) {
  const code = text => h("code", { dir: "auto" }, onOneLine(text));
  const body = states.map(({ text, n, choices, others }) => {
    const rows = choices.map(choice => [
      h("td", {}, code(choice.text)),
      h("td", { class: "narrow" }, `${choice.n} of ${n}`),
      h("td", { class: "narrow" }, meter(choice.n_correct, choice.known)),
    ]);
    if (others) rows.push([h("td", { class: "quiet", colspan: 3 }, `${thousands(others)} other turns`)]);
    const name = text ? code(text) : h("b", {}, "The prompt");
    const first = h("th", { scope: "rowgroup", rowspan: rows.length }, name, h("small", {}, `${n} responses`));
    return h(
      "tbody",
      {},
      rows.map((cells, i) => h("tr", {}, i ? null : first, cells)),
    );
  });
  const head = ["State", "What was done", "by", "correct"].map(name => h("th", { scope: "col" }, name));
  const caption = h("caption", {}, "States that responses share");
  return scrollable("Shared states", h("table", { class: "states" }, caption, h("thead", {}, h("tr", {}, head)), body));
}
