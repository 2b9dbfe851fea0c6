// All prompts: a sortable, searchable table, and the suspicious cases with their explanations.

const groupView = { query: "", kind: "all", sorted: { key: "number", down: false } };

const GROUP_COLUMNS = [
  { name: "group", key: "number", class: "name-cell", cell: (row) => row.name, sort: (row) => row.g },
  { name: "file", key: "file", class: "file-cell", needs: "files", cell: (row) => h("span", { title: row.file }, row.file), sort: (row) => row.file },
  { name: "step", key: "step", class: "number step-cell", needs: "steps", cell: (row) => (row.step === null ? "" : String(row.step)), sort: (row) => row.step },
  { name: "prompt", key: "prompt", class: "prompt-cell", cell: (row) => row.prompt, sort: (row) => row.prompt },
  { name: "rollouts", key: "size", class: "number wide", cell: (row) => String(row.size), sort: (row) => row.size },
  { name: "accuracy", key: "accuracy", class: "number", cell: (row) => accuracyCell(row), sort: (row) => row.accuracy },
  { name: "length", key: "length", class: "number wide", title: "mean, in tokens", cell: (row) => plain(row.length, 0), sort: (row) => row.length },
  { name: "|credit|", key: "credit", class: "number", title: MEAN_CREDIT, cell: (row) => plain(row.credit), sort: (row) => row.credit },
  { name: "flags", key: "flags", class: "number", title: "suspicious rollouts, and verdicts that differ", cell: (row) => (row.flags ? h("span", { class: "flag" }, String(row.flags)) : ""), sort: (row) => row.flags },
];

function accuracyCell(row) {
  if (row.accuracy === null) return "unknown";
  const meter = h("span", { class: "meter", "aria-hidden": "true" });
  meter.style.setProperty("--share", row.accuracy);
  return h("span", {}, meter, ` ${row.right}/${row.known}`);
}

function groupRows() {
  const { groups } = report;
  const flags = new Map();
  const differs = report.differing.map((one) => `${one.group}/${one.number}`);
  const keys = new Set([...report.flags.map((flag) => `${flag.group}/${flag.number}`), ...differs]);
  for (const key of keys) { const g = Number(key.split("/")[0]); flags.set(g, (flags.get(g) ?? 0) + 1); }
  const differing = new Set((report.regraded?.differences ?? []).map((one) => one.group));
  return groups.label.map((_, g) => ({
    g, name: groupLabel(g), file: groups.files[groups.file[g]] ?? "", step: groups.step[g], differs: differing.has(g), prompt: onOneLine((report.texts.prompt[g] ?? "").slice(0, 160)),
    size: groups.size[g], right: groups.right[g], known: groups.known[g],
    accuracy: groups.known[g] ? groups.right[g] / groups.known[g] : null,
    length: groups.length[g], credit: groups.credit_abs[state.preset][g], flags: flags.get(g) ?? 0,
  }));
}

const GROUP_KINDS = {
  all: ["all", () => true],
  mixed: ["mixed", (row) => isMixed(row.g)],
  right: ["all correct", (row) => row.known > 0 && row.right === row.known],
  wrong: ["all incorrect", (row) => row.known > 0 && row.right === 0],
  flagged: ["suspicious", (row) => row.flags > 0],
  differs: ["verdict differs", (row) => row.differs],
};

function drawGroups(main) {
  const rows = groupRows(), has = { files: report.groups.files.length > 0, steps: rows.some((row) => row.step !== null) };
  const columns = GROUP_COLUMNS.filter((column) => !column.needs || has[column.needs]);
  const holder = h("div", { class: "table-holder" });
  const fill = () => {
    const query = groupView.query.toLowerCase(), [, fitsKind] = GROUP_KINDS[groupView.kind];
    const fits = rows.filter((row) => fitsKind(row) && (query === "" || row.name.toLowerCase().includes(query) || row.file.toLowerCase().includes(query) || `step ${row.step}` === query || row.prompt.toLowerCase().includes(query)));
    holder.replaceChildren(h("p", { class: "quiet", role: "status" }, `${thousands(fits.length)} of ${thousands(rows.length)} groups`),
      virtualTable({ label: "Groups", columns, rows: sortRows(fits, columns, groupView.sorted), sorted: groupView.sorted,
        onpick: (row) => go({ view: "rollouts", group: row.g, rollout: null, token: null }), pickLabel: (row) => `Rollouts of group ${groupName(row.g)}`,
        onsort: (key) => {
          groupView.sorted = { key, down: groupView.sorted.key === key ? !groupView.sorted.down : !["number", "prompt", "file", "step"].includes(key) };
          fill();
          holder.querySelector(`button[data-key="${key}"]`)?.focus();
        } }));
  };
  fill();
  const search = h("input", { type: "search", class: "search", placeholder: "group or prompt", "aria-label": "Search groups", value: groupView.query, oninput: (event) => { groupView.query = event.target.value; fill(); } });
  const kinds = h("select", { "aria-label": "Which groups", onchange: (event) => { groupView.kind = event.target.value; fill(); } },
    Object.entries(GROUP_KINDS).map(([key, [name, fits]]) => h("option", { value: key, selected: key === groupView.kind }, `${name} (${thousands(rows.filter(fits).length)})`)));
  main.replaceChildren(
    h("section", { class: "pane", "aria-label": "Groups" }, h("h2", {}, "Groups"), overview(rows), h("div", { class: "bar" }, search, kinds), holder),
    ...[regradedSection(), besideChance()].filter((section) => section !== null), suspiciousList());
}

function overview(rows) {
  const known = rows.reduce((sum, row) => sum + row.known, 0), right = rows.reduce((sum, row) => sum + row.right, 0);
  const facts = [
    [thousands(report.totals.rollouts), "rollouts"], [thousands(report.totals.tokens), report.unit === "words" ? "words" : "tokens"],
    [thousands(rows.length), "groups"], [known ? percent(right / known) : "–", "correct"],
    [thousands(rows.filter((row) => isMixed(row.g)).length), "mixed groups"], [thousands(report.flags.length), "suspicious rollouts"],
  ];
  if (report.regraded) facts.push([thousands(report.regraded.total), "verdicts that differ"]);
  const found = whenPermuted()?.credit_abs;
  if (found) facts.push([plain(found.real), `mean |credit|; with permuted labels ${plain(found.mean)}`]);
  return h("div", { class: "facts-row" }, facts.map(([number, name]) => h("div", {}, h("b", {}, number), h("span", {}, name))));
}

const FLAGS_SHOWN = 40;
function suspiciousList() {
  const about = "Incorrect rollouts that may be right: they state the reference answer, or their tokens speak for correctness. Is it overwritten by later text, or in a form that the dump's grader does not parse? Leads to look at, not verdicts; found under the first preset.";
  const items = report.flags.slice(0, FLAGS_SHOWN).map((flag) => {
    const name = `${groupName(flag.group)}, rollout ${flag.number + 1}`;
    const link = flag.rollout < 0 ? name : h("a", { href: fragment({ view: "rollouts", group: flag.group, rollout: flag.number, token: flag.token }) }, name);
    return h("li", {}, link, " ", h("span", { class: "flag" }, flag.kind), h("p", {}, flag.why));
  });
  const more = report.flags.length > FLAGS_SHOWN ? h("p", { class: "quiet" }, `The strongest ${FLAGS_SHOWN} of ${thousands(report.flags.length)}; the table above has the rest.`) : null;
  return h("section", { class: "pane", "aria-label": "Suspicious rollouts" }, h("h2", {}, "Suspicious rollouts"), h("p", { class: "quiet" }, about),
    items.length ? h("ol", { class: "suspicious" }, items) : h("p", {}, "None found."), more);
}
