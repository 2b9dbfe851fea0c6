// The list of groups that fit the filter, and what stands above a group's responses.

const ITEM_HEIGHT = 52; // pixels, as in page.css

// Of any number of groups those in sight exist.
function groupList() {
  const { groups } = fitting();
  const inner = h("ul", { class: "group-items" });
  const box = h("div", { class: "group-list", tabindex: 0, role: "region", "aria-label": "Groups that fit" }, inner);
  inner.style.height = `${groups.length * ITEM_HEIGHT}px`;
  const listed = report.findings.filter(({ kind }) => kind === "rollouts");
  const flagged = new Set(listed.flatMap(finding => finding.groups));
  const fill = () => {
    const from = Math.max(0, Math.floor(box.scrollTop / ITEM_HEIGHT) - 8);
    const rows = Math.ceil((box.clientHeight || 700) / ITEM_HEIGHT) + 16;
    inner.replaceChildren(...groups.slice(from, from + rows).map((g, i) => groupItem(g, from + i, flagged.has(g))));
  };
  box.addEventListener("scroll", () => requestAnimationFrame(fill), { passive: true });
  new ResizeObserver(fill).observe(box);
  requestAnimationFrame(() => {
    box.scrollTop = Math.max(0, groups.indexOf(state.group) * ITEM_HEIGHT - 120);
    fill();
  });
  return box;
}

function groupItem(g, place, isFlagged) {
  const { groups, texts } = report;
  const dot = isFlagged ? h("i", { class: "mark-dot", title: "something was found here" }) : null;
  const prompt = h("span", { dir: "auto" }, onOneLine((texts.prompt[g] ?? "").slice(0, 60)));
  const properties = {
    href: fragment({ group: g, rollout: null, token: null }),
    "aria-current": g === state.group ? "true" : null,
    class: groups.first[g] < 0 ? "away" : null,
  };
  const item = h(
    "li",
    {},
    h(
      "a",
      properties,
      h("span", { class: "line" }, h("b", { dir: "auto" }, groupName(g)), dot),
      h("span", { class: "line quiet" }, meter(groups.n_correct[g], groups.known[g]), prompt),
    ),
  );
  item.style.top = `${place * ITEM_HEIGHT}px`;
  return item;
}

// How many are correct, as a bar.
function meter(nCorrect, known) {
  const bar = h("span", { class: "meter", role: "img", "aria-label": `${nCorrect} of ${known} correct` });
  bar.style.setProperty("--share", known ? nCorrect / known : 0);
  return h("span", { class: "score" }, bar, `${nCorrect}/${known}`);
}

function sidebar() {
  const options = Object.entries(SORTS).map(([key, [name]]) =>
    h("option", { value: key, selected: key === state.sort }, name),
  );
  const onchange = event => go({ sort: event.target.value });
  return h(
    "details",
    { class: "sidebar", open: !matchMedia("(max-width: 82rem)").matches },
    h("summary", {}, h("span", { role: "status" }, fittingLine())),
    h("label", { class: "quiet" }, "Sorted by ", h("select", { id: "sort", onchange }, options)),
    groupList(),
  );
}

function groupHead(g) {
  const { groups } = report;
  const here = fitting().groups;
  const place = here.indexOf(g);
  const step = (by, sign, name) =>
    h("button", { type: "button", "aria-label": name, onclick: () => toNeighbour(by) }, sign);
  const position = place < 0 ? "not among those that fit" : `${thousands(place + 1)} of ${thousands(here.length)}`;
  const facts = `${groups.n_correct[g]} of ${groups.known[g]} correct · mean length ${plain(groups.length[g], 0)}`;
  const save = h("button", { type: "button", class: "picture", onclick: () => savePicture(g) }, "Save picture");
  return h(
    "header",
    { class: "group-head bar" },
    step(-1, "‹", "Previous group"),
    h("h2", { class: "group-name", dir: "auto" }, groupName(g)),
    step(1, "›", "Next group"),
    h("span", { class: "quiet" }, position),
    h("span", { class: "facts" }, facts),
    groups.first[g] < 0 ? null : save,
  );
}

// The next group that fits and is in the page.
function neighbour(g, by) {
  const here = fitting().groups.filter(other => report.groups.first[other] >= 0);
  const place = here.indexOf(g);
  return here[place < 0 ? 0 : Math.max(0, Math.min(here.length - 1, place + by))] ?? g;
}

const toNeighbour = by => go({ group: neighbour(state.group, by), rollout: null, token: null });

function promptBox(g) {
  const { prompt, answer } = Object.fromEntries(Object.entries(report.texts).map(([name, all]) => [name, all[g]]));
  const long = prompt && (prompt.length > 400 || prompt.split("\n").length > 6);
  let text = remark("The dump holds no prompt.");
  if (prompt) text = h("div", { class: "prompt-text", dir: "auto" }, spellOut(prompt.replace(/\r\n?/g, "\n")));
  if (long) {
    const more = h("span", { class: "link" }, ` … all ${thousands(prompt.length)} characters`);
    text = h("details", { class: "fold" }, h("summary", { dir: "auto" }, onOneLine(prompt.slice(0, 300)), more), text);
  }
  const short = answer && onOneLine(answer.length > 300 ? `${answer.slice(0, 300)}…` : answer);
  const reference = answer
    ? h("p", { class: "answer" }, "Reference answer: ", h("code", { dir: "auto" }, short))
    : null;
  return h(
    "section",
    { class: "prompt", "aria-label": "Prompt" },
    h("span", { class: "who" }, "Prompt"),
    text,
    reference,
  );
}

// What was found in this group, each with a link to its place.
function foundHere(g) {
  const links = rolloutsOf(g).flatMap(r =>
    (report.placesOf.get(r) ?? [])
      .filter(({ why }) => why)
      .map(({ finding, token, why }) => {
        const href = fragment({ rollout: numberOf(r), token });
        return h("a", { class: "flag", title: why, href }, `Response ${numberOf(r) + 1}: ${finding.title} ↓`);
      }),
  );
  return links.length ? h("div", { class: "chips found" }, links) : null;
}
