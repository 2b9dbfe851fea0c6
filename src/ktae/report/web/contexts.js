// Where a token occurs: lines of text around it, from correct and from incorrect rollouts.

const AROUND = 14; // tokens on each side
const PER_SIDE = 25; // shown before "more"

function occurrences(rank) {
  const found = { 1: [], 0: [], null: [] };
  const { tokens, offsets, rollouts } = report;
  let rollout = 0, last = -1;
  for (let at = tokens.indexOf(rank); at >= 0; at = tokens.indexOf(rank, at + 1)) {
    while (offsets[rollout + 1] <= at) rollout++;
    if (rollout !== last) found[rollouts.correct[rollout]].push([rollout, at - offsets[rollout]]);
    last = rollout; // the first place in each rollout, as the tables count
  }
  return found;
}

function contextList(rank) {
  const found = occurrences(rank);
  const sides = [["Right", found[1]], ["Wrong", found[0]], ["Unknown", found[null]]];
  return h("div", { class: "sides" }, sides.filter(([name, list]) => list.length || name !== "Unknown").map(([name, list]) => {
    const items = h("ul", { class: "contexts" });
    const more = h("button", { type: "button" });
    let shown = 0;
    const grow = () => {
      items.append(...list.slice(shown, shown + PER_SIDE).map(([rollout, t]) => contextLine(rollout, t)));
      shown = Math.min(list.length, shown + PER_SIDE);
      more.textContent = `${thousands(list.length - shown)} more`;
      more.hidden = shown === list.length;
    };
    more.addEventListener("click", grow);
    grow();
    return h("section", { class: "side", "aria-label": `In ${name.toLowerCase()} rollouts` }, h("h3", {}, `${name}: ${counted(list.length, "rollout")}`), items, more);
  }));
}

function contextLine(rollout, t) {
  const ids = idsOf(rollout);
  const from = Math.max(0, t - AROUND), to = Math.min(ids.length, t + AROUND + 1);
  const text = (a, b) => spellOut(runsOf(ids.subarray(a, b)).map((run) => run.text).join("").replace(/\s+/g, " "));
  const g = report.groupOf[rollout], number = rollout - report.groups.first[g];
  const group = groupStatistics(g, state.preset);
  const shade = shadeClass("credit", creditOf(rollout, t, group), group.largest);
  return h("li", {},
    h("a", { href: filtered({ group: g, rollout: number, token: t }) }, `${groupName(g)}, rollout ${number + 1}`),
    h("p", { dir: "auto" }, from > 0 ? "…" : "", text(from, t), h("mark", { class: shade }, tokenLabel(ids[t])), text(t + 1, to), to < ids.length ? "…" : ""));
}
