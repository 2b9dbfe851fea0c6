// One group: prompt, then correct beside incorrect responses, every token shaded.

let cards = new Map(); // rollout -> { box, more }, and once they are needed segments, runs, spans
let spansOf = new Map(); // a token's place in the vocabulary -> the elements that hold it
let nearing = null; // tells which cards are about to be seen

function rolloutsView() {
  const g = state.group;
  [cards, spansOf, current] = [new Map(), new Map(), null];
  nearing?.disconnect();
  nearing = new IntersectionObserver(onNear, { rootMargin: "600px 0px" });
  return [
    filterBar(),
    el`<div class="browse">
      ${sidebar()}
      <div class="group">${groupContents(g)}</div>
      <aside id="card" aria-label="The ${report.unit}'s numbers">${emptyCard()}</aside>
    </div>`,
  ];
}

// When the view is there: what is in sight, and the place that the reader asks for.
function arrive() {
  for (const rollout of cards.keys()) {
    const { box } = cards.get(rollout);
    if (box.getBoundingClientRect().top < 1.5 * (innerHeight || 900)) fillCard(rollout);
  }
  if (state.rollout !== null) focusToken(report.groups.first[state.group] + state.rollout, state.token);
  else if (state.q) goToHit(0);
  else if (state.finding) goToFinding();
}

// With a finding in the filter, to its first place in the group.
function goToFinding() {
  for (const rollout of cards.keys()) {
    const places = report.placesOf.get(rollout) ?? [];
    const place = places.find(({ finding, token }) => finding.key === state.finding && token !== null);
    if (place) return focusToken(rollout, place.token);
  }
}

function onNear(entries) {
  for (const { isIntersecting, target } of entries) if (isIntersecting) fillCard(Number(target.dataset.rollout));
}

function groupContents(g) {
  const { groups, rollouts, placesOf } = report;
  const empty = text => el`<p class="empty">${text}</p>`;
  if (!fitting().groups.length) return empty("Nothing fits. Let go of a part of the filter above.");
  if (groups.first[g] < 0) {
    const text = "The responses of this group are not in this page: whole groups are left out above a size.";
    return [groupHead(g), empty(`${text} --max-tokens takes more.`)];
  }
  const chosen = fitting().rollouts;
  const rank = r => (chosen?.has(r) ? 2 : 0) + (placesOf.get(r)?.some(({ why }) => why) ? 1 : 0);
  const sides = Object.entries(OUTCOMES).map(([name, correct]) => {
    const rows = rolloutsOf(g).filter(r => rollouts.correct[r] === correct);
    rows.sort((x, y) => rank(y) - rank(x) || x - y);
    return rows.length > 0 && side(name, rows);
  });
  return [
    groupHead(g),
    promptBox(g),
    el`<div class="evidence">${legend(g)}${remark(groups.evidence[g])}</div>`,
    el`<div class="sides">${sides}</div>`,
  ];
}

function side(name, rows) {
  return el`<section class="side" aria-label="${capital(name)} responses">
    <h3 class="side-name ${name}">${capital(name)}<span>${rows.length}</span></h3>
    <div class="cards">${rows.map(rolloutCard)}</div>
  </section>`;
}

function rolloutCard(rollout) {
  const { rollouts, placesOf } = report;
  const number = numberOf(rollout);
  const facts = [
    counted(rollouts.length[rollout], report.unit),
    rewardOf(rollout),
    `advantage ${signed(rollouts.advantage[rollout], 2)}`,
    `mean credit of ${report.estimator} ${signed(rollouts.credit[rollout])}`,
    onOneLine(modelOf(rollout)),
  ];
  const places = placesOf.get(rollout) ?? [];
  const flag = ({ finding: { title }, token }) =>
    token === null
      ? el`<span class="flag">${title}</span>`
      : el`<a class="flag" href=${fragment({ rollout: number, token })}>${title} ↓</a>`;
  const isFitting = fitting().rollouts?.has(rollout);
  const box = el`<div class="text" dir="auto" data-rollout=${rollout}></div>`;
  const more = el`<button type="button" class="more" hidden>Show all</button>`;
  more.addEventListener("click", () => {
    more.textContent = box.classList.toggle("whole") ? "Show less" : "Show all";
  });
  cards.set(rollout, { box, more });
  nearing.observe(box);
  return el`<article class="rollout ${isFitting ? "fits" : ""}" aria-label="Response ${number + 1}">
    <h4>
      <b>Response ${number + 1}</b>
      ${isFitting && el`<span class="flag fit">fits the filter</span>`}
      ${places.map(flag)}
      <span class="facts">${facts.filter(Boolean).join(" · ")}</span>
    </h4>
    ${places.filter(({ why }) => why).map(({ why }) => el`<p class="why">${spellOut(why)}</p>`)}
    ${box}${more}
  </article>`;
}

const segmentsIn = rollout => (cards.get(rollout).segments ??= segmentsOf(rollout));
const runsIn = rollout => (cards.get(rollout).runs ??= segmentsIn(rollout).flatMap(segment => segment.runs));

// The tokens of a response, once it is about to be seen: each an element of its own.
function fillCard(rollout) {
  const card = cards.get(rollout);
  if (card.spans) return;
  nearing.unobserve(card.box);
  const full = fullShade(report.groupOf[rollout]);
  card.spans = [];
  const parts = segmentsIn(rollout).map(segment => {
    const spans = segment.runs.map(run => tokenElement(run, rollout, full));
    card.spans.push(...spans);
    return segmentElement(segment, tokenList(segment, spans, rollout));
  });
  for (const [first, last] of hitsIn(rollout)) {
    for (const span of card.spans.slice(first, last + 1)) span.classList.add("hit");
  }
  card.box.replaceChildren(...(card.spans.length ? parts : [el`<span class="quiet">(empty)</span>`]));
  const tellRest = () => (card.more.hidden = card.box.scrollHeight <= card.box.clientHeight + 8);
  card.box.addEventListener("toggle", tellRest, { capture: true });
  requestAnimationFrame(tellRest);
}

// In blocks that end at a line's end, so that the browser lays out those in sight alone.
const BLOCK = 100; // tokens
function tokenList({ name, runs }, spans, rollout) {
  const blocks = [[]];
  for (const span of spans) {
    blocks.at(-1).push(span);
    if (blocks.at(-1).length >= BLOCK && span.textContent.endsWith("\n")) blocks.push([]);
  }
  const onfocus = () =>
    current?.rollout !== rollout && runs.length && focusToken(rollout, runs[0].first, { quiet: true });
  return el`<div class="tokens" role="listbox" tabindex="0" aria-label="${name}, response ${numberOf(rollout) + 1}"
    @keydown=${event => onTokenKey(event, rollout)} @focus=${onfocus}>
      ${blocks.map(block => el`<div class="block" role="presentation">${block}</div>`)}
    </div>`;
}

// Of a run of several tokens, the strongest tells the shade. Written out, since there are many.
function tokenElement(run, rollout, full) {
  const span = document.createElement("span");
  const t = strongestOf(run, rollout);
  const shade = shadeClass(signalAt(rollout, t), full);
  const isBeyond = shade && state.signal === "credit" && unitsAt(rollout, t).some(unit => unit.beyond);
  span.className = `t ${shade}${isBeyond ? " beyond" : ""}`;
  span.setAttribute("role", "option");
  span.setAttribute("aria-selected", "false");
  span.setAttribute("aria-label", onOneLine(run.text) || "empty");
  span.id = `t${rollout}-${run.first}`;
  span.textContent = shownText(run.text);
  Object.assign(span, { run, rollout });
  for (const rank of idsOf(rollout).subarray(run.first, run.first + run.count)) {
    if (!spansOf.has(rank)) spansOf.set(rank, []);
    spansOf.get(rank).push(span);
  }
  return span;
}
