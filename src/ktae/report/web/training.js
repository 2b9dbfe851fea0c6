// Training: curves over steps, and how tokens' values changed.

const BARS = 12; // tokens for and against at a step

function drawTraining(main) {
  const { steps, series, of_tokens: tokens } = report.training;
  if (!steps.length) {
    main.replaceChildren(h("section", { class: "pane" }, h("h2", {}, "Training"),
      h("p", {}, "These rollouts name fewer than two training steps, so there is nothing to follow. Give a run folder, or a dump of several steps (TRL's completions, verl's rollout_data_dir).")));
    return;
  }
  const at = state.step !== null && steps.includes(state.step) ? state.step : steps[steps.length - 1];
  const charts = h("div", { class: "charts" });
  const bars = h("div", { class: "bars", "aria-live": "off" });
  const line = h("div", {});
  const output = h("output", { for: "step" }, String(at));
  const show = (step) => {
    output.textContent = String(step);
    charts.replaceChildren(...series.map(({ name, values }) => h("figure", {}, h("figcaption", {}, name, h("b", {}, plainAt(values[steps.indexOf(step)]))), curve(steps, values, { name, at: step }))));
    bars.replaceChildren(...barLists(steps.indexOf(step)));
    line.replaceChildren(followed(step));
  };
  const slider = h("input", { id: "step", type: "range", min: 0, max: steps.length - 1, step: 1, value: String(steps.indexOf(at)), "aria-valuetext": `step ${at}`,
    oninput: (event) => {
      const step = steps[Number(event.target.value)];
      event.target.setAttribute("aria-valuetext", `step ${step}`);
      go({ step }, { quiet: true });
      show(step);
    } });
  show(at);
  const missing = ["entropy", "KL", "clip share"].filter((name) => !series.some((line) => line.name === name));
  main.replaceChildren(
    h("section", { class: "pane", "aria-label": "Curves" }, h("h2", {}, "Training"), h("div", { class: "bar slider" }, h("label", { for: "step" }, "Step "), slider, output), charts,
      h("p", { class: "quiet" },
        missing.length ? `Not in this dump: ${missing.join(", ")}. ` : "",
        steps.length > SMOOTHED ? `Thin lines are steps, thick ones a running mean of ${SMOOTHED}.` : "")),
    h("section", { class: "pane", "aria-label": "Tokens over steps" }, h("h2", {}, "Tokens at this step"),
      tokens.tokens.length ? h("div", {}, bars, line) : h("p", { class: "quiet" }, "No step has a mixed group, so no token has a value.")));
}

const plainAt = (value) => (value === null || value === undefined ? " –" : ` ${short(value)}`);

// The strongest tokens of a step, for and against, as buttons with bars.
function barLists(column) {
  const { tokens, impact, credit } = report.training.of_tokens;
  const rows = tokens.map((rank, i) => ({ rank, i, impact: impact[i][column], credit: credit[i][column] })).filter((row) => row.impact);
  const most = Math.max(...rows.map((row) => Math.abs(row.impact)), 1e-9);
  const list = (name, side) => h("section", { "aria-label": name }, h("h3", {}, name), h("ul", { class: "bar-list" }, side.map((row) => barItem(row, most))), side.length ? null : h("p", { class: "quiet" }, "none"));
  const up = rows.filter((row) => row.impact > 0).sort((x, y) => y.impact - x.impact).slice(0, BARS);
  const down = rows.filter((row) => row.impact < 0).sort((x, y) => x.impact - y.impact).slice(0, BARS);
  return [list("For a right answer", up), list("Against", down)];
}

function barItem(row, most) {
  const id = report.vocabulary.id[row.rank];
  const bar = h("i", { class: row.impact > 0 ? "p6" : "n6", "aria-hidden": "true" });
  bar.style.width = `${(100 * Math.abs(row.impact)) / most}%`;
  return h("li", {}, h("button", { type: "button", "aria-pressed": String(id === state.id), title: `impact; credit ${signed(row.credit)}`, onclick: () => go({ id }) },
    h("code", { dir: "auto" }, tokenLabel(row.rank)), h("span", { class: "track" }, bar), h("span", { class: "number" }, signed(row.impact, 2))));
}

// The picked token's credit over all steps; else the strongest token's.
function followed(step) {
  const { steps, of_tokens: { tokens, credit } } = report.training;
  let i = state.id === null ? 0 : tokens.findIndex((rank) => report.vocabulary.id[rank] === state.id);
  const lost = i < 0;
  if (lost) i = 0;
  const half = largestOnPage(report.presets[0]);
  return h("figure", { class: "followed" },
    h("figcaption", {}, "Credit of ", h("code", { dir: "auto" }, tokenLabel(tokens[i])), " over steps (mean over groups; a gap: no mixed group in which it says anything). ", lost ? "The token picked is not among the 300 of greatest impact. " : "", "Pick another above."),
    curve(steps, credit[i], { name: `credit of ${tokenLabel(tokens[i])}`, at: step, range: [-half, half] }));
}
