// Full text search: a box that searches while one types, and the way from hit to hit.

let hitAt = 0;

// Where the search's words begin in the responses of a group on the page: [{ rollout, token }].
function hitsOf(g) {
  const query = state.q.toLowerCase(),
    hits = [];
  for (const rollout of query ? shownCards.keys() : []) {
    if (!textOf(rollout).includes(query)) continue;
    const runs = runsOf(idsOf(rollout)),
      text = textOf(rollout);
    let at = text.indexOf(query),
      end = 0;
    for (const run of runs) {
      end += run.text.length;
      for (; at >= 0 && at < end; at = text.indexOf(query, at + query.length)) hits.push({ rollout, token: run.first });
    }
  }
  return hits;
}

// Open and mark a hit of the group; behind the last comes the first of the next group.
function goToHit(i) {
  const hits = hitsOf(state.group),
    place = document.getElementById("hits");
  if (i >= hits.length && hits.length && neighbour(state.group, 1) !== state.group) return toNeighbour(1);
  hitAt = hits.length ? (i + hits.length) % hits.length : 0;
  place.textContent = hits.length
    ? `${thousands(hitAt + 1)} of ${counted(hits.length, "hit")} in this group`
    : "no hit in these responses";
  if (hits.length) focusToken(hits[hitAt].rollout, hits[hitAt].token);
}

function searchBox() {
  const name = "Search responses, prompts and groups";
  let waiting = null;
  const apply = () => {
    clearTimeout(waiting);
    change({ q: box.value });
    backToBox();
  };
  const onEnter = event => {
    if (event.key !== "Enter") return;
    if (box.value !== state.q) return apply();
    goToHit(hitAt + (event.shiftKey ? -1 : 1));
    backToBox();
  };
  const box = h("input", {
    type: "search",
    class: "search",
    id: "search",
    placeholder: name,
    "aria-label": name,
    value: state.q,
    onkeydown: onEnter,
    oninput: () => {
      clearTimeout(waiting);
      waiting = setTimeout(apply, 300);
    },
  });
  const step = (by, sign, label) =>
    h("button", { type: "button", "aria-label": label, onclick: () => goToHit(hitAt + by) }, sign);
  return h(
    "span",
    { class: "searching" },
    box,
    state.q
      ? [
          step(-1, "↑", "Previous hit"),
          step(1, "↓", "Next hit"),
          h("span", { id: "hits", class: "quiet", "aria-live": "polite" }),
        ]
      : null,
  );
}

// After the view is drawn anew, on with typing.
function backToBox() {
  const box = document.getElementById("search");
  box?.focus({ preventScroll: true });
  box?.setSelectionRange(box.value.length, box.value.length);
}
