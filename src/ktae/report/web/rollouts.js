// One group: prompt, then right beside wrong rollouts, every token shaded.
//
// What is in sight when the view is drawn is shaded at once, before the first paint: an observer
// reports later.

let shownCards = new Map(); // rollout -> { box, chunks, segments }
let current = null; // { rollout, t, run, pin }
let nearing = null;

function drawRollouts(main) {
  const g = state.group;
  const { groups } = report;
  shownCards = new Map();
  current = null;
  nearing?.disconnect();
  nearing = new IntersectionObserver(onNear, { rootMargin: "300px 0px" });
  const panel = h("aside", { id: "card", "aria-label": `The ${report.unit}'s numbers` }, emptyCard());
  main.replaceChildren(
    filterBar(),
    h("div", { class: "browse" }, sidebar(), h("div", { class: "group" }, ...groupContents(g)), panel),
  );
  for (const rollout of shownCards.keys()) paintNow(rollout);
  if (groups.first[g] < 0) return;
  if (state.rollout !== null) focusToken(groups.first[g] + state.rollout, state.token);
  else if (state.q) goToHit(0);
  else goToFinding(g);
}

// With a finding in the filter, to its first place in the group.
function goToFinding(g) {
  for (const [rollout] of shownCards) {
    const place = report.placesOf
      .get(rollout)
      ?.find(({ finding, token }) => finding.key === state.finding && token !== null);
    if (place && report.groupOf[rollout] === g) return focusToken(rollout, place.token);
  }
}

function groupContents(g) {
  const { groups, rollouts, placesOf } = report;
  if (!fitting().groups.length) {
    return [h("p", { class: "empty" }, "Nothing fits. Let go of a part of the filter above.")];
  }
  if (groups.first[g] < 0) {
    const text = "The responses of this group are not in this page: whole groups are left out above a size.";
    return [groupHead(g), h("p", { class: "empty" }, `${text} --max-tokens takes more.`)];
  }
  const chosen = fitting().rollouts;
  const rank = r => (chosen?.has(r) ? 2 : 0) + (placesOf.get(r)?.some(({ why }) => why) ? 1 : 0);
  const having = correct =>
    rolloutsOf(g)
      .filter(r => rollouts.correct[r] === correct)
      .sort((x, y) => rank(y) - rank(x) || x - y);
  const sides = Object.entries(OUTCOMES).map(([name, correct]) => [name, having(correct)]);
  return [
    groupHead(g),
    promptBox(g),
    foundHere(g),
    h("div", { class: "evidence" }, legend(state.signal, g), remark(groups.evidence[g])),
    turnsPane(g),
    h(
      "div",
      { class: "sides" },
      sides.filter(([, list]) => list.length).map(([name, list]) => side(name, list)),
    ),
  ].filter(x => x !== null);
}

// Fill and shade a card as far as it is in sight or within a window's height below, and the first of
// each side anyway. A window without a height (a frame that is not laid out yet) has a usual one.
function paintNow(rollout) {
  const { box } = shownCards.get(rollout);
  const height = innerHeight || 900,
    card = box.closest(".rollout");
  if (card.previousElementSibling && box.getBoundingClientRect().top > 2 * height) return;
  fillCard(rollout);
  const bottom = box.getBoundingClientRect().top + (box.clientHeight || height);
  for (const chunk of shownCards.get(rollout).chunks) {
    if (chunk.element.getBoundingClientRect().top > bottom) break;
    shadeChunk(chunk);
  }
}

function side(name, rows) {
  const title = name[0].toUpperCase() + name.slice(1);
  return h(
    "section",
    { class: "side", "aria-label": `${title} responses` },
    h("h3", { class: `side-name ${name}` }, title, h("span", {}, ` ${rows.length}`)),
    h("div", { class: "cards" }, rows.map(rolloutCard)),
  );
}

function rolloutCard(rollout) {
  const { rollouts, placesOf } = report;
  const number = numberOf(rollout) + 1;
  const reward = rollouts.reward[rollout] === null ? "none" : plain(rollouts.reward[rollout], 2);
  const facts = [
    counted(rollouts.length[rollout], report.unit),
    `reward ${reward}`,
    `advantage ${signed(rollouts.advantage[rollout], 2)}`,
    `mean credit of ${report.credit.name} ${signed(rollouts.credit[rollout])}`,
  ];
  const model = rollouts.models[rollouts.model[rollout]];
  if (model) facts.push(onOneLine(model));
  const places = placesOf.get(rollout) ?? [];
  const flag = ({ finding, token }) => {
    if (token === null) return h("span", { class: "flag" }, finding.title);
    return h("a", { class: "flag", href: fragment({ rollout: number - 1, token }) }, `${finding.title} ↓`);
  };
  const reasons = places.filter(({ why }) => why).map(({ why }) => h("p", { class: "why" }, spellOut(why)));
  const box = h("div", { class: "text", dir: "auto", "data-rollout": rollout });
  const more = h("button", { type: "button", class: "more", hidden: true });
  const card = { box, more, chunks: [], segments: null };
  shownCards.set(rollout, card);
  nearing.observe(box);
  if (!rollouts.length[rollout]) box.append(h("span", { class: "quiet" }, "(empty)"));
  box.addEventListener("scroll", () => tellRest(card), { passive: true });
  more.addEventListener("click", () => {
    box.classList.toggle("whole");
    tellRest(card);
  });
  const fits = fitting().rollouts?.has(rollout);
  return h(
    "article",
    { class: `rollout${fits ? " fits" : ""}`, "aria-label": `Response ${number}` },
    h(
      "h4",
      {},
      h("b", {}, `Response ${number}`),
      fits ? h("span", { class: "flag fit" }, "fits the filter") : null,
      places.map(flag),
      h("span", { class: "facts" }, facts.join(" · ")),
    ),
    reasons,
    h("div", { class: "body" }, box, more),
  );
}

// How much of a card is below its edge: said on a button that shows all of it.
function tellRest(card) {
  const { box, more } = card;
  const whole = box.classList.contains("whole"),
    below = box.scrollHeight - box.clientHeight - box.scrollTop;
  const lines = Math.round(below / 24);
  more.hidden = !whole && (box.scrollHeight <= box.clientHeight + 8 || lines < 1);
  box.classList.toggle("cut", !whole && !more.hidden);
  more.textContent = whole ? "Show less" : `${counted(lines, "more line")} ↓`;
}

function onNear(entries) {
  for (const entry of entries) {
    if (!entry.isIntersecting) continue;
    nearing.unobserve(entry.target);
    if (entry.target.chunk) shadeChunk(entry.target.chunk);
    else fillCard(Number(entry.target.dataset.rollout));
  }
}

// The rollout's segments, in chunks. Those inside a card are observed by the card's own scrolling.
function fillCard(rollout) {
  const card = shownCards.get(rollout);
  if (card.segments) return;
  const number = numberOf(rollout) + 1;
  const watch = new IntersectionObserver(
    entries =>
      entries.forEach(entry => {
        if (entry.isIntersecting) {
          watch.unobserve(entry.target);
          shadeChunk(entry.target.chunk);
        }
      }),
    { root: card.box, rootMargin: "200px" },
  );
  card.segments = segmentsOf(rollout);
  const elements = card.segments.map(segment => {
    const chunks = chunksOf(rollout, segment.runs);
    card.chunks.push(...chunks);
    const list = h(
      "div",
      { class: "tokens", role: "listbox", tabindex: 0, "aria-label": `${segment.name}, response ${number}` },
      chunks.map(chunk => chunk.element),
    );
    list.addEventListener("keydown", event => onTokenKey(event, rollout));
    list.addEventListener("focus", () => {
      if (current?.rollout !== rollout && segment.runs.length)
        focusToken(rollout, segment.runs[0].first, { quiet: true });
    });
    chunks.forEach(chunk => watch.observe(chunk.element));
    return segmentElement(segment, list);
  });
  card.runs = card.segments.flatMap(segment => segment.runs);
  if (card.runs.length) card.box.replaceChildren(...elements);
  card.box.addEventListener("toggle", () => tellRest(card), { capture: true });
  requestAnimationFrame(() => tellRest(card));
}

function shadeChunk(chunk) {
  if (chunk.shaded) return;
  chunk.shaded = true;
  const { rollout } = chunk;
  const scale = fullShade(state.signal, report.groupOf[rollout]);
  chunk.spans = chunk.runs.map(run => {
    const span = document.createElement("span");
    span.className = runClass(run, rollout, scale);
    span.setAttribute("role", "option");
    span.setAttribute("aria-selected", "false");
    span.setAttribute("aria-label", onOneLine(run.text) || "empty");
    span.id = `t${rollout}-${run.first}`;
    span.textContent = textOfRun(run);
    span.run = run;
    return span;
  });
  chunk.element.replaceChildren(...chunk.spans);
  if (state.q) markSearch(chunk);
}

// Of a run of several tokens, the strongest tells the shade.
function runClass(run, rollout, scale) {
  let [best, at] = [0, run.first];
  for (let t = run.first; t < run.first + run.count; t++) {
    if (state.signal === "none") continue;
    const number = signalAt(state.signal, rollout, t);
    if (Math.abs(number) > Math.abs(best) || Number.isNaN(number)) [best, at] = [number, t];
  }
  const name = state.signal === "none" ? "" : shadeClass(state.signal, best, scale);
  const beyond = name && state.signal === "credit" && unitsAt(rollout, at).some(unit => unit.beyond);
  return ["t", name, beyond ? "beyond" : ""].filter(x => x).join(" ");
}

// Where the search's words stand in a chunk.
function markSearch(chunk) {
  const text = chunk.runs
      .map(run => run.text)
      .join("")
      .toLowerCase(),
    query = state.q.toLowerCase();
  const ends = [];
  chunk.runs.reduce((sum, run, i) => (ends[i] = sum + run.text.length), 0);
  for (let at = text.indexOf(query); at >= 0; at = text.indexOf(query, at + query.length)) {
    chunk.spans.forEach((span, i) => {
      if (ends[i] > at && ends[i] - chunk.runs[i].text.length < at + query.length) span.classList.add("hit");
    });
  }
}
