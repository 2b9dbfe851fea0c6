// The card beside the responses: everything about one token, in plain words first, the numbers below.

const BEFORE = { bigram: " with the one before", trigram: " with the two before" };

let current = null; // { rollout, t, run, pin }

function tokenCard(rollout, t, run) {
  const rank = idsOf(rollout)[t];
  const id = report.vocabulary.id[rank];
  const place = `${report.unit} ${thousands(t + 1)} of ${thousands(report.rollouts.length[rollout])}`;
  const parts = [...idsOf(rollout).subarray(run.first, run.first + run.count)].map(tokenLabel).join(" ");
  return el`<div class="card">
    <h3><code class="token" dir="auto">${tokenLabel(rank)}</code></h3>
    ${remark(`${place} · response ${numberOf(rollout) + 1}, ${outcomeOf(rollout)} · id ${id}`)}
    ${run.count > 1 && el`<p class="parts">“${onOneLine(run.text)}” is made of ${run.count} tokens: ${parts}</p>`}
    ${isCounted(rollout, t) ? explained(rollout, t, id) : remark(inUnits(MASKED))}
    <button class="link" @click=${() => go({ view: "tokens", id })}>This ${report.unit} in all groups</button>
  </div>`;
}

const MASKED =
  "The policy did not write this token, or it was cut off: it is masked, counts nowhere and gets no credit.";

// Where a token's credit comes from.
function explained(rollout, t, id) {
  const { rollouts, groups, groupOf } = report;
  const g = groupOf[rollout];
  const [credit, units] = [creditAt(rollout, t), unitsAt(rollout, t)];
  let why = [verdict(credit, units), units.map(contingency)];
  if (rollouts.correct[rollout] === null) why = el`<p>This response has no verdict: it is in no table.</p>`;
  else if (report.ignored.includes(id)) why = el`<p>The estimator gives this ${report.unit} no credit.</p>`;
  else if (!isMixed(g) && credit === 0) why = el`<p>${groups.evidence[g]}</p>`;
  return [
    why,
    advantageSum(rollouts.advantage[rollout], credit),
    units.length > 0 && report.about_tables && remark(inUnits(report.about_tables)),
  ];
}

// What the strongest unit says. Single p-values are not corrected for choosing among many tokens.
function verdict(credit, units) {
  const [unit] = [...units].sort((x, y) => x.p - y.p);
  const lean = credit > 0 ? el`<b class="p6">Leans to correct</b>` : el`<b class="n6">Leans to incorrect</b>`;
  const told = unit?.beyond
    ? "That is beyond chance, corrected over all groups"
    : "Among so many, a split like this is to be expected by chance";
  const why =
    unit &&
    `The ${report.unit}${BEFORE[unit.name] ?? ""} is in ${unit.a} of ${unit.nCorrect} correct and ${unit.b} of ` +
      `${unit.nIncorrect} incorrect responses. ${told} (p = ${pText(unit.p)}, of distinct responses).`;
  return el`<p class="verdict">${credit ? lean : "Its credit is 0"}. ${why}</p>`;
}

// The 2×2 of a unit: a column for each class, filled as far as its responses have it.
function contingency({ name, a, nCorrect, b, nIncorrect }) {
  const cell = (n, total, kind) => el`<td class="cell ${kind}" --share="${total ? n / total : 0}"><b>${n}</b></td>`;
  return el`<table class="contingency">
    <caption>Responses with this ${name === "token" ? report.unit : name}</caption>
    <thead><tr><td></td><th scope="col">correct</th><th scope="col">incorrect</th></tr></thead>
    <tbody>
      <tr><th scope="row">with it</th>${cell(a, nCorrect, "toward")}${cell(b, nIncorrect, "against")}</tr>
      <tr>
        <th scope="row">without</th>
        ${cell(nCorrect - a, nCorrect, "none")}${cell(nIncorrect - b, nIncorrect, "none")}
      </tr>
    </tbody>
  </table>`;
}

function advantageSum(advantage, credit) {
  if (advantage === null) return remark("No reward or advantage is known of this response.");
  const part = (number, name) => el`<span><b>${signed(number)}</b><small>${name}</small></span>`;
  return el`<p class="sum">
    ${part(advantage, "rollout advantage")} + ${part(credit, `credit of ${report.estimator}`)} =
    ${part(advantage + credit, inUnits(SIGNALS.advantage))}
  </p>`;
}

function emptyCard() {
  const text = `Point at a ${report.unit} to see where its credit comes from.`;
  return remark(`${text} By keyboard: Tab into a response, then the arrows.`);
}

function onTokenOver({ target }) {
  if (!target.run || current?.pin || current?.run === target.run) return;
  showCard(target.rollout, strongestOf(target.run, target.rollout), target.run);
}

function onTokenClick({ target }) {
  if (target.run) showCard(target.rollout, strongestOf(target.run, target.rollout), target.run, { pin: true });
}

// Show a token's numbers beside the responses; `pin` keeps them while the pointer moves on.
function showCard(rollout, t, run, { pin = false } = {}) {
  const panel = document.getElementById("card");
  current = { rollout, t, run, pin };
  const close =
    pin &&
    el`<button type="button" class="close" aria-label="Let go of this ${report.unit}" @click=${letGo}>×</button>`;
  panel.replaceChildren(...childrenOf([close, tokenCard(rollout, t, run)]));
  panel.className = pin ? "open pinned" : "open";
  markTokens(rollout, t);
  if (pin) go({ rollout: numberOf(rollout), token: t }, { quiet: true });
}

function letGo() {
  const panel = document.getElementById("card");
  if (!panel) return;
  current = null;
  panel.replaceChildren(emptyCard());
  panel.className = "";
  unmark();
  go({ rollout: null, token: null }, { quiet: true });
}

function unmark() {
  for (const span of document.querySelectorAll(".same")) span.classList.remove("same");
  for (const span of document.querySelectorAll(".active")) {
    span.classList.remove("active");
    span.setAttribute("aria-selected", "false");
  }
}

// Outline the token, and underline the same token elsewhere.
function markTokens(rollout, t) {
  unmark();
  for (const span of spansOf.get(idsOf(rollout)[t]) ?? []) span.classList.add("same");
  const span = cards.get(rollout).spans.find(({ run }) => t < run.first + run.count);
  span.classList.add("active");
  span.setAttribute("aria-selected", "true");
  span.closest(".tokens").setAttribute("aria-activedescendant", span.id);
}

// Bring a token into sight, with its numbers; without one the response. `quiet` is for one that the keyboard is at.
function focusToken(rollout, t, { quiet = false } = {}) {
  const card = cards.get(rollout);
  if (!card) return;
  fillCard(rollout);
  const span = t !== null && (card.spans.find(({ run }) => t < run.first + run.count) ?? card.spans.at(-1));
  if (!span) return card.box.closest(".rollout").scrollIntoView({ block: "start" });
  for (let fold = span.closest("details"); fold; fold = fold.parentElement.closest("details")) fold.open = true;
  showCard(rollout, Math.min(t, report.rollouts.length[rollout] - 1), span.run, { pin: !quiet });
  if (quiet) return;
  span.closest(".tokens").focus({ preventScroll: true });
  const { box } = card;
  box.scrollTop += span.getBoundingClientRect().top - box.getBoundingClientRect().top - box.clientHeight / 3;
  const { top } = span.getBoundingClientRect(); // in the upper half: a narrow page has the card in the lower
  if (top < 0.12 * innerHeight || top > 0.45 * innerHeight) scrollBy(0, top - 0.3 * innerHeight);
}

const STEPS = { ArrowRight: 1, ArrowLeft: -1, ArrowDown: 12, ArrowUp: -12, Home: -Infinity, End: Infinity };

function onTokenKey(event, rollout) {
  if (event.altKey || event.ctrlKey || event.metaKey) return;
  const { spans } = cards.get(rollout);
  if (event.key === "Enter" && current) {
    showCard(current.rollout, current.t, current.run, { pin: true });
  } else if (event.key in STEPS && spans.length) {
    const at = current?.rollout === rollout ? spans.findIndex(({ run }) => run === current.run) : 0;
    const span = spans[Math.max(0, Math.min(spans.length - 1, at + STEPS[event.key]))];
    const t = strongestOf(span.run, rollout);
    focusToken(rollout, t, { quiet: true });
    span.closest(".tokens").focus({ preventScroll: true });
    span.scrollIntoView({ block: "nearest" });
    announce(`${tokenLabel(idsOf(rollout)[t])}, credit ${signed(creditAt(rollout, t))}`);
  } else return;
  event.preventDefault();
}
