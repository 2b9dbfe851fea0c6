// Training: curves over steps. Compare: two runs or steps, paired by prompt.

function trainingView() {
  return pane("Training", lineKey(report.charts[0].lines), chartGrid(report.charts));
}

let opened = null;

function compareView() {
  const { comparisons, charts } = report;
  opened ??= report.opened;
  const { a, b, sentence, rows, won, lost, n_won: nWon, n_lost: nLost, n_same: same } = comparisons[opened];
  const onchange = event => {
    opened = Number(event.target.value);
    draw();
  };
  const options = comparisons.map((x, i) => el`<option value=${i} selected=${i === opened}>${x.a} → ${x.b}</option>`);
  const table = numberTable({ title: sentence, about: "", columns: ["", a, b, "difference"], rows });
  table.append(
    el`<div class="sides">${problems("Won", nWon, won, a, b)}${problems("Lost", nLost, lost, a, b)}</div>`,
    remark(`${thousands(same)} prompts have the same accuracy. Paired by prompt.`),
  );
  const curves = charts.filter(({ lines }) => lines.length > 1);
  return el`<div class="overview">
    ${options.length > 1 && el`<p><select aria-label="Which two" @change=${onchange}>${options}</select></p>`}
    ${table}
    ${curves.length > 0 && pane("Curves", lineKey(curves[0].lines), chartGrid(curves))}
  </div>`;
}

function problems(name, n, list, a, b) {
  const item = ([prompt, change, inA, inB]) =>
    el`<li>
      <b>${change}</b> <a href=${linkTo(inA)}>${onOneLine(a)}</a> <a href=${linkTo(inB)}>${onOneLine(b)}</a>
      <div class="quiet" dir="auto">${onOneLine(prompt)}</div>
    </li>`;
  return el`<section class="side">
    <h3>${name}: ${thousands(n)}</h3>
    ${list.length > 0 && el`<ul class="won" tabindex="0" aria-label=${name}>${list.map(item)}</ul>`}
  </section>`;
}
