// One group: prompt, then correct beside incorrect rollouts, every token shaded.
//
// A rollout is cut into chunks at line ends. A chunk is one text node until it comes near the
// viewport; then its tokens become elements of their own, which changes no layout. What is in sight
// when the view is drawn is shaded at once, before the first paint: an observer reports later.

const CHUNK = 160; // tokens, then on to the end of the line
const LONGEST_CHUNK = 1200;
let shownCards = new Map(); // rollout -> { box, chunks }
let current = null; // { rollout, t, run, pin }
let nearing = null;

function drawRollouts(main) {
  const g = state.group;
  const { groups } = report;
  shownCards = new Map();
  current = null;
  nearing?.disconnect();
  nearing = new IntersectionObserver(onNear, { rootMargin: "300px 0px" });
  if (groups.first[g] < 0) {
    main.replaceChildren(h("section", { class: "pane" }, groupBar(g), h("p", {}, "The rollouts of this group are not in this page: see the note on sampling above.")));
    return;
  }
  const rows = Array.from({ length: groups.size[g] }, (_, i) => groups.first[g] + i).filter((r) => !leftOut(r));
  const flaggedFirst = (x, y) => report.flagOf.has(y) - report.flagOf.has(x);
  const of = (verdict) => rows.filter((r) => report.rollouts.correct[r] === verdict).sort(flaggedFirst);
  const panel = h("aside", { id: "card", "aria-label": "The token's numbers" }, emptyCard());
  const sides = [["Correct", of(1)], ["Incorrect", of(0)], ["Unknown", of(null)]];
  main.replaceChildren(h("div", { class: "with-card" },
    h("section", { class: "pane", "aria-label": "Group" },
      groupBar(g), promptBox(g), groupSummary(g, rows),
      h("div", { class: "sides" }, sides.filter(([name, list]) => list.length || name !== "Unknown").map(([name, list]) => side(name, list)))),
    panel));
  for (const rollout of shownCards.keys()) paintNow(rollout);
  if (state.rollout !== null) focusToken(groups.first[g] + state.rollout, state.token ?? 0);
}

// Fill and shade a card as far as it is in sight or within a window's height below, and the first of
// each side anyway. A window without a height (a frame that is not laid out yet) has a usual one.
function paintNow(rollout) {
  const { box } = shownCards.get(rollout);
  const height = innerHeight || 900, card = box.closest(".rollout");
  if (card.previousElementSibling && box.getBoundingClientRect().top > 2 * height) return;
  fillCard(rollout);
  const { chunks } = shownCards.get(rollout);
  const bottom = box.getBoundingClientRect().top + (box.clientHeight || height);
  for (const chunk of chunks) {
    if (chunk.element.getBoundingClientRect().top > bottom) break;
    shadeChunk(chunk);
  }
}

function groupBar(g) {
  const step = (by) => go({ group: neighbour(g, by), rollout: null, token: null });
  const input = h("input", { type: "number", min: 1, max: report.groups.label.length, value: String(g + 1), "aria-label": "Group number",
    onchange: (event) => {
      const number = Math.round(Number(event.target.value));
      go({ group: Math.max(1, Math.min(report.groups.label.length, number || 1)) - 1, rollout: null, token: null });
    } });
  const mixedOnly = h("input", { type: "checkbox", checked: skip.mixed, onchange: (event) => { skip.mixed = event.target.checked; } });
  const finished = h("input", { type: "checkbox", checked: state.finished, "aria-label": "Finished rollouts only", onchange: (event) => go({ finished: event.target.checked, rollout: null, token: null }) });
  return h("div", { class: "bar" },
    h("button", { type: "button", "aria-label": "Previous group", onclick: () => step(-1) }, "‹"),
    h("span", {}, "Group ", input, ` of ${thousands(report.groups.label.length)}`),
    h("button", { type: "button", "aria-label": "Next group", onclick: () => step(1) }, "›"),
    report.anyMixed ? h("label", { class: "check" }, mixedOnly, " mixed only") : null,
    report.anyUnfinished ? h("label", { class: "check", title: `A rollout counts as finished if ${report.finished_rule}. The others leave this view, and credit is computed from the rest.` }, finished, " finished rollouts only") : null,
    h("label", { class: "check" }, "Shade ", shadeSelect()),
    h("strong", { class: "group-name", dir: "auto" }, groupName(g)), legend(state.signal, g));
}

function shadeSelect() {
  return h("select", { id: "shade", "aria-label": "Which credit is shaded in full", onchange: (event) => go({ shade: event.target.value }) },
    Object.entries(SHADES).map(([key, name]) => h("option", { value: key, selected: key === state.shade }, name)));
}

const skip = { mixed: true };
function neighbour(g, by) {
  const n = report.groups.label.length;
  for (let next = g + by; next >= 0 && next < n; next += by) {
    if (report.groups.first[next] >= 0 && (!skip.mixed || !report.anyMixed || isMixed(next))) return next;
  }
  return g;
}

function promptBox(g) {
  const prompt = report.texts.prompt[g], answer = report.texts.answer[g];
  return h("div", { class: "prompt" },
    prompt ? h("div", { class: "prompt-text", dir: "auto", tabindex: 0, role: "region", "aria-label": "Prompt" }, spellOut(prompt)) : h("p", { class: "quiet" }, "The dump holds no prompt."),
    answer ? h("p", { class: "answer" }, "Reference answer: ", h("code", { dir: "auto" }, onOneLine(answer.length > 300 ? `${answer.slice(0, 300)}…` : answer))) : null);
}

function groupSummary(g, rows) {
  const flags = rows.filter((r) => report.flagOf.has(r));
  const { groups } = report;
  const text = `${groups.size[g]} ${groups.size[g] === 1 ? "rollout" : "rollouts"}, ${groups.right[g]} of ${groups.known[g]} correct; mean length ${plain(groups.length[g], 0)}; mean |credit| ${plain(groups.credit_abs[state.preset][g])}`;
  const left = groups.size[g] - rows.length;
  const unfinished = left ? h("p", { class: "warn" }, `${left} unfinished ${left === 1 ? "rollout is" : "rollouts are"} left out; credit is computed from the other ${rows.length}. The numbers in the line above are of all.`) : null;
  const list = flags.map((r) => h("li", {}, h("a", { href: fragment({ rollout: r - groups.first[g], token: report.flagOf.get(r).token }) }, `Rollout ${r - groups.first[g] + 1}`), ` (${report.flagOf.get(r).kind}): ${report.flagOf.get(r).why}`));
  const none = state.signal === "credit" && !groupStatistics(g, state.preset).mixed ? h("p", { class: "warn" }, noComparison(groupStatistics(g, state.preset))) : null;
  return h("div", { class: "summary" }, h("p", {}, text), unfinished, h("p", { class: "quiet" }, evidenceLine(g)), none, list.length ? h("div", { class: "warn" }, h("b", {}, "Suspicious"), h("ul", {}, list.slice(0, FLAGS_OPEN)), moreFlags(list)) : null);
}

// How many of the group's tokens are more than chance.
function evidenceLine(g) {
  const group = groupStatistics(g, state.preset);
  if (!group.mixed) return "";
  const ranks = [...group.counts.keys()], bound = discoveryBound(group, LEVEL);
  const below = ranks.filter((rank) => group.pOf(rank) < LEVEL).length, found = ranks.filter((rank) => group.pOf(rank) <= bound).length;
  return `${thousands(below)} of ${thousands(ranks.length)} distinct tokens have p below .05, ${thousands(found)} at a false discovery rate of 5 %.`;
}

const FLAGS_OPEN = 3;
function moreFlags(list) {
  if (list.length <= FLAGS_OPEN) return null;
  return h("details", {}, h("summary", {}, `${list.length - FLAGS_OPEN} more`), h("ul", {}, list.slice(FLAGS_OPEN)));
}

function side(name, rows) {
  return h("section", { class: "side", "aria-label": `${name} rollouts` },
    h("h2", {}, `${name} (${rows.length})`),
    rows.length ? h("div", { class: "cards" }, rows.map(rolloutCard)) : h("p", { class: "quiet" }, `No ${name.toLowerCase()} rollout in this group.`));
}

function rolloutCard(rollout) {
  const { rollouts, groups } = report;
  const g = report.groupOf[rollout], number = rollout - groups.first[g] + 1;
  const model = rollouts.models[rollouts.model[rollout]];
  const facts = [`reward ${rollouts.reward[rollout] === null ? "none" : plain(rollouts.reward[rollout], 2)}`, `A ${signed(rollouts.advantage[rollout], 2)}`, `${thousands(rollouts.length[rollout])} tokens`, `mean credit ${signed(meanTerm(rollout))}`];
  if (model) facts.push(onOneLine(model));
  const flag = report.flagOf.get(rollout);
  const box = h("div", { class: "text", role: "listbox", tabindex: 0, dir: "auto", "aria-label": `Tokens of rollout ${number}`, "data-rollout": rollout });
  const card = { box, chunks: [], runs: null };
  shownCards.set(rollout, card);
  box.addEventListener("keydown", (event) => onTokenKey(event, rollout));
  box.addEventListener("focus", () => { if (current?.rollout !== rollout) focusToken(rollout, 0, { quiet: true }); });
  nearing.observe(box);
  if (!rollouts.length[rollout]) box.append(h("span", { class: "quiet", role: "option", "aria-selected": "false" }, "(empty)"));
  return h("article", { class: "rollout", "aria-label": `Rollout ${number}` },
    h("h3", {}, `Rollout ${number} `, h("span", { class: "facts" }, facts.join(" · ")), flag ? h("span", { class: "flag", title: flag.why }, flag.kind) : null), box);
}

function meanTerm(rollout) {
  const group = groupStatistics(report.groupOf[rollout], state.preset);
  if (report.rollouts.correct[rollout] === null) return 0;
  const ids = idsOf(rollout), mask = maskOf(rollout);
  let sum = 0, n = 0;
  ids.forEach((rank, t) => {
    const x = mask && !mask[t] ? null : group.of(rank);
    if (x) [sum, n] = [sum + x.credit, n + 1];
  });
  return n ? sum / n : 0;
}

function onNear(entries) {
  for (const entry of entries) {
    if (!entry.isIntersecting) continue;
    nearing.unobserve(entry.target);
    const chunk = entry.target.chunk;
    if (chunk) shadeChunk(chunk);
    else fillCard(Number(entry.target.dataset.rollout));
  }
}

// The rollout's text in chunks. Those inside a card are observed by the card's own scrolling.
function fillCard(rollout) {
  const card = shownCards.get(rollout);
  if (card.runs) return;
  card.runs = runsOf(idsOf(rollout));
  const watch = new IntersectionObserver((entries) => entries.forEach((entry) => {
    if (entry.isIntersecting) { watch.unobserve(entry.target); shadeChunk(entry.target.chunk); }
  }), { root: card.box, rootMargin: "200px" });
  let from = 0;
  for (let i = 0, tokens = 0; i < card.runs.length; i++) {
    tokens += card.runs[i].count;
    const full = (tokens >= CHUNK && card.runs[i].text.endsWith("\n")) || tokens >= LONGEST_CHUNK;
    if (!full && i + 1 < card.runs.length) continue;
    const runs = card.runs.slice(from, i + 1);
    const element = h("div", { class: "chunk", role: "presentation" }, runs.map((run) => shownText(run.text)).join(""));
    element.chunk = { rollout, runs, element, first: from, shaded: false };
    card.chunks.push(element.chunk);
    watch.observe(element);
    [from, tokens] = [i + 1, 0];
  }
  card.box.replaceChildren(...card.chunks.map((chunk) => chunk.element));
}

// Line breaks are kept and shown by a sign, so that a token of line breaks can be pointed at.
const shownText = (text) => spellOut(text.replace(/\r\n?/g, "\n")).replace(/\n/g, "↵\n");

function shadeChunk(chunk) {
  if (chunk.shaded) return;
  chunk.shaded = true;
  const { rollout } = chunk;
  const g = report.groupOf[rollout], group = groupStatistics(g, state.preset), scale = fullShade(state.signal, g);
  chunk.spans = chunk.runs.map((run, i) => {
    const span = document.createElement("span");
    span.className = runClass(run, rollout, group, scale);
    span.setAttribute("role", "option");
    span.setAttribute("aria-selected", "false");
    span.id = `t${rollout}-${chunk.first + i}`;
    span.textContent = shownText(run.text);
    span.run = run;
    return span;
  });
  chunk.element.replaceChildren(...chunk.spans);
}

// Of a run of several tokens, the strongest tells the shade.
function runClass(run, rollout, group, scale) {
  const ids = idsOf(rollout);
  let best = 0, at = run.first, mark = 0;
  for (let t = run.first; t < run.first + run.count; t++) {
    mark ||= report.vocabulary.mark[ids[t]];
    if (state.signal === "none") continue;
    const number = signalAt(state.signal, rollout, t, group);
    if (Math.abs(number) > Math.abs(best) || Number.isNaN(number)) [best, at] = [number, t];
  }
  let name = state.signal === "none" ? "" : shadeClass(state.signal, best, scale);
  if (name && state.signal === "credit" && isFaint(group, ids[at])) name = `${name[0]}0`;
  return `t ${name}${mark ? " mark" : ""}`;
}

function onTokenOver(event) {
  const span = event.target.closest?.(".t");
  if (!span || current?.pin) return;
  const rollout = Number(span.closest(".text").dataset.rollout);
  if (current?.rollout === rollout && current.run === span.run) return;
  showCard(rollout, strongestOf(span.run, rollout), { run: span.run });
}

function onTokenClick(event) {
  const span = event.target.closest?.(".t");
  if (!span) return;
  const rollout = Number(span.closest(".text").dataset.rollout);
  showCard(rollout, strongestOf(span.run, rollout), { run: span.run, pin: true });
}

function strongestOf(run, rollout) {
  const group = groupStatistics(report.groupOf[rollout], state.preset), ids = idsOf(rollout);
  let best = run.first;
  for (let t = run.first; t < run.first + run.count; t++) {
    if (Math.abs(group.of(ids[t])?.credit ?? 0) > Math.abs(group.of(ids[best])?.credit ?? 0)) best = t;
  }
  return best;
}

const emptyCard = () => h("p", { class: "quiet" }, "Point at a token, or press Tab and the arrow keys, to see where its value comes from.");

// Show a token's numbers beside the rollouts; `pin` keeps them while the pointer moves on.
function showCard(rollout, t, { run, pin = false, quiet = false } = {}) {
  const panel = document.getElementById("card");
  if (!panel) return;
  current = { rollout, t, run, pin };
  const close = pin ? h("button", { type: "button", class: "close", "aria-label": "Let go of this token", onclick: letGo }, "×") : "";
  panel.replaceChildren(close, tokenCard(rollout, t, { run }));
  panel.classList.add("open");
  panel.classList.toggle("pinned", pin);
  mark(rollout, t);
  if (pin && !quiet) go({ rollout: rollout - report.groups.first[report.groupOf[rollout]], token: t }, { quiet: true });
}

function letGo() {
  const panel = document.getElementById("card");
  current = null;
  if (!panel) return;
  panel.replaceChildren(emptyCard());
  panel.classList.remove("open", "pinned");
  for (const span of document.querySelectorAll(".active, .same")) span.classList.remove("active", "same");
  go({ rollout: null, token: null }, { quiet: true });
}

// Outline the token, and underline the same token elsewhere.
function mark(rollout, t) {
  const rank = idsOf(rollout)[t];
  for (const [other, card] of shownCards) {
    const ids = idsOf(other);
    for (const chunk of card.chunks) {
      if (!chunk.shaded) continue;
      for (const span of chunk.spans) {
        const { first, count } = span.run;
        let same = false;
        for (let i = first; i < first + count; i++) same ||= ids[i] === rank;
        const active = other === rollout && t >= first && t < first + count;
        if (same !== span.classList.contains("same")) span.classList.toggle("same", same);
        if (active !== span.classList.contains("active")) {
          span.classList.toggle("active", active);
          span.setAttribute("aria-selected", String(active));
        }
        if (active) card.box.setAttribute("aria-activedescendant", span.id);
      }
    }
  }
}

// Bring a token into sight, with its numbers.
function focusToken(rollout, t, { quiet = false } = {}) {
  const card = shownCards.get(rollout);
  if (!card || !report.rollouts.length[rollout]) return;
  fillCard(rollout);
  const wanted = Math.min(t, report.rollouts.length[rollout] - 1);
  const chunk = card.chunks.find(({ runs }) => wanted < runs[runs.length - 1].first + runs[runs.length - 1].count);
  shadeChunk(chunk);
  const span = chunk.spans.find(({ run }) => wanted < run.first + run.count);
  showCard(rollout, wanted, { run: span.run, pin: !quiet, quiet });
  if (quiet) return;
  card.box.focus({ preventScroll: true });
  span.scrollIntoView({ block: "nearest" });
  if (card.box.getBoundingClientRect().top < 0 || card.box.getBoundingClientRect().bottom > innerHeight) card.box.scrollIntoView({ block: "center" });
}

function onTokenKey(event, rollout) {
  const steps = { ArrowRight: 1, ArrowLeft: -1, ArrowDown: 12, ArrowUp: -12, Home: -Infinity, End: Infinity };
  if (event.altKey || event.ctrlKey || event.metaKey) return;
  if (event.key === "Enter" && current) {
    event.preventDefault();
    showCard(current.rollout, current.t, { run: current.run, pin: true });
    return;
  }
  if (!(event.key in steps)) return;
  event.preventDefault();
  const { runs } = shownCards.get(rollout);
  if (!runs?.length) return;
  const at = current?.rollout === rollout ? runs.findIndex((run) => current.t < run.first + run.count) : 0;
  const next = Math.max(0, Math.min(runs.length - 1, at + steps[event.key]));
  moveTo(rollout, strongestOf(runs[next], rollout));
}

function moveTo(rollout, t) {
  const card = shownCards.get(rollout);
  focusToken(rollout, t, { quiet: true });
  const span = card.box.querySelector(".active");
  span?.scrollIntoView({ block: "nearest" });
  const x = groupStatistics(report.groupOf[rollout], state.preset).of(idsOf(rollout)[t]);
  announce(`${tokenLabel(idsOf(rollout)[t])}, credit ${signed(x ? x.credit : 0)}`);
}
