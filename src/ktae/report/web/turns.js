// The turns of a group's responses, a row for each, and what was done in the states that they share.

function turnsPane(g) {
  const turns = report.turns[g];
  if (!turns) return null;
  const most = Math.max(...turns.rollouts.map(row => row.length));
  const turn = ({ start, text, credit }, i) =>
    el`<td class=${shadeClass(credit, turns.largest, true)}>
      <a href=${fragment({ rollout: i, token: start })} dir="auto">${onOneLine(text)}</a>
      <small>${signed(credit)}</small>
    </td>`;
  const row = (its, i) =>
    el`<tr>
      <th scope="row">${i + 1} ${outcomeOf(report.groups.first[g] + i)}</th>
      ${its.map(x => turn(x, i))}
      ${turns.left_out[i] > 0 && el`<td class="quiet">${turns.left_out[i]} more</td>`}
    </tr>`;
  const names = Array.from({ length: most }, (_, n) => el`<th scope="col">Turn ${n + 1}</th>`);
  const table = el`<table class="turn-rows">
    <caption>First words, and the mean credit per ${report.unit} (${report.credit.name})</caption>
    <thead><tr><th scope="col">Response</th>${names}</tr></thead>
    <tbody>${turns.rollouts.map(row)}</tbody>
  </table>`;
  return el`<details class="pane turns" open>
    <summary><h3>Turns</h3></summary>
    ${scrollable("Turns", table)}
    ${turns.states.length > 0 && scrollable("Shared states", stateTable(turns.states))}
  </details>`;
}

function stateTable(states) {
  const code = text => el`<code dir="auto">${onOneLine(text)}</code>`;
  const body = ({ text, n, choices, others }) => {
    const rows = choices.map(choice => [
      el`<td>${code(choice.text)}</td>`,
      el`<td class="narrow">${choice.n} of ${n}</td>`,
      el`<td class="narrow">${meter(choice.n_correct, choice.known)}</td>`,
    ]);
    if (others) rows.push(el`<td class="quiet" colspan="3">${thousands(others)} other turns</td>`);
    const first = el`<th scope="rowgroup" rowspan=${rows.length}>
      ${text ? code(text) : el`<b>The prompt</b>`}<small>${n} responses</small>
    </th>`;
    return el`<tbody>${rows.map((cells, i) => el`<tr>${i === 0 && first}${cells}</tr>`)}</tbody>`;
  };
  const head = ["State", "What was done", "by", "correct"].map(name => el`<th scope="col">${name}</th>`);
  return el`<table class="states">
    <caption>States that responses share</caption>
    <thead><tr>${head}</tr></thead>
    ${states.map(body)}
  </table>`;
}
