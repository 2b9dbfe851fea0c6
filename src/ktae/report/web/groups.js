// The list of groups that fit the filter, and what stands above a group's rollouts.

const ITEM_HEIGHT = 52; // pixels, as in page.css

// Of any number of groups those in sight exist.
function groupList() {
  const { groups } = fitting();
  const inner = h("ul", { class: "group-items" });
  const box = h("div", { class: "group-list", tabindex: 0, role: "region", "aria-label": "Groups that fit" }, inner);
  inner.style.height = `${groups.length * ITEM_HEIGHT}px`;
  const found = new Map();
  for (const finding of report.findings) {
    if (finding.kind === "rollouts") for (const g of finding.groups) found.set(g, (found.get(g) ?? 0) + 1);
  }
  const fill = () => {
    const from = Math.max(0, Math.floor(box.scrollTop / ITEM_HEIGHT) - 8), rows = Math.ceil((box.clientHeight || 700) / ITEM_HEIGHT) + 16;
    inner.replaceChildren(...groups.slice(from, from + rows).map((g, i) => groupItem(g, from + i, found.has(g))));
  };
  box.addEventListener("scroll", () => requestAnimationFrame(fill), { passive: true });
  new ResizeObserver(fill).observe(box);
  requestAnimationFrame(() => { box.scrollTop = Math.max(0, groups.indexOf(state.group) * ITEM_HEIGHT - 120); fill(); });
  fill();
  return box;
}

function groupItem(g, place, isFlagged) {
  const { groups } = report;
  const link = h("a", { href: fragment({ group: g, rollout: null, token: null }), "aria-current": g === state.group ? "true" : null, class: groups.first[g] < 0 ? "away" : null },
    h("span", { class: "line" }, h("b", { dir: "auto" }, groupName(g)), isFlagged ? h("i", { class: "mark-dot", title: "something was found here" }) : null),
    h("span", { class: "line quiet" }, dots(groups.right[g], groups.known[g]), h("span", { dir: "auto" }, onOneLine((report.texts.prompt[g] ?? "").slice(0, 60)))));
  const item = h("li", {}, link);
  item.style.top = `${place * ITEM_HEIGHT}px`;
  return item;
}

// How many are right: a dot for each rollout, or of many a bar.
function dots(right, known) {
  const meter = h("span", { class: "meter", role: "img", "aria-label": `${right} of ${known} right` });
  meter.style.setProperty("--share", known ? right / known : 0);
  return h("span", { class: "score" }, meter, `${right}/${known}`);
}

function sidebar() {
  const sort = h("select", { "aria-label": "Sort groups", id: "sort", onchange: (event) => go({ sort: event.target.value }) },
    Object.entries(SORTS).map(([key, [name]]) => h("option", { value: key, selected: key === state.sort }, name)));
  const narrow = matchMedia("(max-width: 82rem)").matches;
  return h("details", { class: "sidebar", open: !narrow },
    h("summary", {}, h("span", { role: "status" }, fittingLine())),
    h("label", { class: "quiet" }, "Sorted by ", sort), groupList());
}

function groupHead(g) {
  const { groups } = report, here = fitting().groups, place = here.indexOf(g);
  const step = (by) => go({ group: neighbour(g, by), rollout: null, token: null });
  const finished = h("input", { type: "checkbox", checked: state.finished, id: "finished", onchange: (event) => go({ finished: event.target.checked, rollout: null, token: null }) });
  const position = place < 0 ? "not among those that fit" : `${thousands(place + 1)} of ${thousands(here.length)}`;
  const facts = [`${groups.right[g]} of ${groups.known[g]} right`, `mean length ${plain(groups.length[g], 0)}`];
  const telling = g === firstGroup() ? tellingOf(g) : "";
  return h("header", { class: "group-head" },
    h("div", { class: "bar" },
      h("button", { type: "button", "aria-label": "Previous group", onclick: () => step(-1) }, "‹"),
      h("h2", { class: "group-name", dir: "auto" }, groupName(g)),
      h("button", { type: "button", "aria-label": "Next group", onclick: () => step(1) }, "›"),
      h("span", { class: "quiet" }, position),
      h("span", { class: "facts" }, facts.join(" · ")),
      telling ? h("span", { class: "facts" }, `Look here first: ${telling}`) : null,
      report.anyUnfinished ? h("label", { class: "check", title: `A rollout counts as finished if ${report.finished_rule}. The others leave this view, and credit is computed from the rest.` }, finished, " finished only") : null,
      groups.first[g] < 0 ? null : h("button", { type: "button", class: "picture", onclick: () => savePicture(g) }, "Save picture")));
}

// What a group has to show, in a few words.
function tellingOf(g) {
  const titles = report.findings.filter((finding) => finding.why.length && finding.groups.includes(g)).map(({ title }) => title.toLowerCase());
  const beyond = report.groups.beyond[g];
  return [...titles.slice(0, 1), ...(beyond ? [`${counted(beyond, unitWord())} beyond chance`] : [])].join("; ");
}

// The next group that fits and is in the page.
function neighbour(g, by) {
  const here = fitting().groups.filter((other) => report.groups.first[other] >= 0);
  if (!here.length) return g;
  const place = here.indexOf(g);
  return here[place < 0 ? 0 : Math.max(0, Math.min(here.length - 1, place + by))];
}

function promptBox(g) {
  const prompt = report.texts.prompt[g], answer = report.texts.answer[g];
  const long = prompt && (prompt.length > 400 || prompt.split("\n").length > 6);
  const text = prompt ? h("div", { class: "prompt-text", dir: "auto" }, spellOut(prompt.replace(/\r\n?/g, "\n"))) : h("p", { class: "quiet" }, "The dump holds no prompt.");
  return h("section", { class: "prompt", "aria-label": "Prompt" },
    h("span", { class: "who" }, "Prompt"),
    long ? h("details", { class: "fold" }, h("summary", { dir: "auto" }, onOneLine(prompt.slice(0, 300)), h("span", { class: "link" }, ` … all ${thousands(prompt.length)} characters`)), text) : text,
    answer ? h("p", { class: "answer" }, "Reference answer: ", h("code", { dir: "auto" }, onOneLine(answer.length > 300 ? `${answer.slice(0, 300)}…` : answer))) : null);
}

// What was found in this group, each with a link to its place.
function foundHere(g) {
  const { groups, placesOf } = report, links = [];
  for (let r = groups.first[g]; r < groups.first[g] + groups.size[g]; r++) {
    for (const { finding, token, why } of placesOf.get(r) ?? []) {
      if (leftOut(r) || !why) continue;
      links.push(h("a", { class: "flag", title: why, href: fragment({ rollout: r - groups.first[g], token }) }, `Rollout ${r - groups.first[g] + 1}: ${finding.title} ↓`));
    }
  }
  return links.length ? h("div", { class: "chips found" }, links) : null;
}

// How many of the group's units are more than chance.
function evidenceLine(group) {
  if (!group.mixed) return noComparison(group);
  const found = surelyBeyond(group);
  let below = 0, all = 0;
  for (const of of group.units) {
    const keys = [...of.counts.keys()];
    all += keys.length;
    below += keys.filter((key) => of.pOf(key) < LEVEL).length;
  }
  const what = group.units.length > 1 ? "units" : { token: `${unitWord()}s`, bigram: `pairs of ${unitWord()}s`, trigram: `runs of three ${unitWord()}s` }[group.units[0].unit];
  const beyond = found ? `${thousands(found)} ${found === 1 ? "is" : "are"} beyond chance after correcting for their number.` : "None is beyond chance after correcting for their number: chance explains these shades.";
  return `${thousands(below)} of ${thousands(all)} distinct ${what} have p < .05, each alone. ${beyond}`;
}
