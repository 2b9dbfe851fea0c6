// Pointing at tokens: the card beside the rollouts, the keyboard, and jumps to a place.

function onTokenOver(event) {
  const span = event.target.closest?.(".t");
  if (!span?.run || current?.pin) return;
  const rollout = Number(span.closest(".text").dataset.rollout);
  if (current?.rollout === rollout && current.run === span.run) return;
  showCard(rollout, strongestOf(span.run, rollout), { run: span.run });
}

function onTokenClick(event) {
  const span = event.target.closest?.(".t");
  if (!span?.run) return;
  const rollout = Number(span.closest(".text").dataset.rollout);
  showCard(rollout, strongestOf(span.run, rollout), { run: span.run, pin: true });
}

function strongestOf(run, rollout) {
  let best = run.first;
  for (let t = run.first; t < run.first + run.count; t++) {
    if (Math.abs(creditAt(rollout, t)) > Math.abs(creditAt(rollout, best))) best = t;
  }
  return best;
}

function emptyCard() {
  const text = `Point at a ${report.unit} to see where its credit comes from.`;
  return remark(`${text} By keyboard: Tab into a response, then the arrows.`);
}

// Show a token's numbers beside the rollouts; `pin` keeps them while the pointer moves on.
function showCard(rollout, t, { run, pin = false, quiet = false } = {}) {
  const panel = document.getElementById("card");
  if (!panel) return;
  current = { rollout, t, run, pin };
  const close = pin
    ? h("button", { type: "button", class: "close", "aria-label": "Let go of this token", onclick: letGo }, "×")
    : "";
  panel.replaceChildren(close, tokenCard(rollout, t, { run }));
  panel.classList.add("open");
  panel.classList.toggle("pinned", pin);
  mark(rollout, t);
  if (pin && !quiet) go({ rollout: numberOf(rollout), token: t }, { quiet: true });
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
        if (active) span.closest(".tokens").setAttribute("aria-activedescendant", span.id);
      }
    }
  }
}

// Bring a token into sight, with its numbers; without one the rollout.
function focusToken(rollout, t, { quiet = false } = {}) {
  const card = shownCards.get(rollout);
  if (!card) return;
  if (t === null || !report.rollouts.length[rollout])
    return card.box.closest(".rollout").scrollIntoView({ block: "start" });
  if (!quiet)
    if (!quiet) {
      const before = [...shownCards.keys()];
      before.slice(0, before.indexOf(rollout)).forEach(fillCard); // they grow
    }
  fillCard(rollout);
  const wanted = Math.min(t, report.rollouts.length[rollout] - 1);
  const chunk = card.chunks.find(({ runs }) => wanted < runs[runs.length - 1].first + runs[runs.length - 1].count);
  shadeChunk(chunk);
  const span = chunk.spans.find(({ run }) => wanted < run.first + run.count);
  for (let fold = span.closest("details"); fold; fold = fold.parentElement.closest("details")) fold.open = true;
  showCard(rollout, wanted, { run: span.run, pin: !quiet, quiet });
  if (quiet) return;
  span.closest(".tokens").focus({ preventScroll: true });
  card.box.scrollTop +=
    span.getBoundingClientRect().top - card.box.getBoundingClientRect().top - card.box.clientHeight / 3;
  const { top } = span.getBoundingClientRect(); // in the upper half: a narrow page has the card in the lower
  if (top < 0.12 * innerHeight || top > 0.45 * innerHeight) scrollBy(0, top - 0.3 * innerHeight);
  span.classList.add("arrived");
  tellRest(card);
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
  const at = current?.rollout === rollout ? runs.findIndex(run => current.t < run.first + run.count) : 0;
  const next = Math.max(0, Math.min(runs.length - 1, at + steps[event.key]));
  moveTo(rollout, strongestOf(runs[next], rollout));
}

function moveTo(rollout, t) {
  focusToken(rollout, t, { quiet: true });
  const span = shownCards.get(rollout).box.querySelector(".active");
  span?.closest(".tokens").focus({ preventScroll: true });
  span?.scrollIntoView({ block: "nearest" });
  announce(`${tokenLabel(idsOf(rollout)[t])}, credit ${signed(creditAt(rollout, t))}`);
}
