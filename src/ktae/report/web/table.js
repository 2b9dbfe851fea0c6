// A table of any number of rows of which only those in sight exist.

const ROW_HEIGHT = 34; // pixels, as in page.css
const MARGIN = 24; // rows beyond those in sight

// columns: [{ name, key, cell(row) -> node or text, sort(row) -> number or text, class }].
function virtualTable({ label, columns, rows, sorted, onsort, onpick, pickLabel, picked }) {
  const body = h("tbody");
  const head = h(
    "tr",
    {},
    columns.map(column => headCell(column, sorted, onsort)),
  );
  const table = h("table", { "aria-rowcount": rows.length + 1, "aria-label": label }, h("thead", {}, head), body);
  const scroller = h(
    "div",
    { class: "scroller", tabindex: 0, role: "region", "aria-label": `${label}, scrollable` },
    table,
  );
  let first = -1,
    last = -1;
  const fill = () => {
    const top = Math.floor(scroller.scrollTop / ROW_HEIGHT);
    const bottom = top + Math.ceil((scroller.clientHeight || 600) / ROW_HEIGHT);
    if (first >= 0 && top >= first && Math.min(bottom, rows.length) <= last) return;
    const from = (first = Math.max(0, top - MARGIN) & ~1); // even: stripes stay where they are
    const upTo = (last = Math.min(rows.length, bottom + MARGIN));
    const cells = [];
    for (let i = from; i < upTo; i++) cells.push(bodyRow(rows[i], i, columns, onpick, pickLabel, picked));
    body.replaceChildren(spacer(from), ...cells, spacer(rows.length - upTo));
  };
  scroller.addEventListener("scroll", () => requestAnimationFrame(fill), { passive: true });
  new ResizeObserver(() => {
    first = -1;
    fill();
  }).observe(scroller);
  fill();
  if (!rows.length) scroller.append(remark("Nothing fits the filter."));
  return scroller;
}

function headCell(column, sorted, onsort) {
  if (!column.sort) return h("th", { scope: "col", class: column.class }, column.name);
  const is = sorted && sorted.key === column.key;
  const direction = is ? (sorted.down ? "descending" : "ascending") : null;
  const arrow = is ? (sorted.down ? " ▾" : " ▴") : "";
  const button = h(
    "button",
    { type: "button", "data-key": column.key, title: column.title, onclick: () => onsort(column.key) },
    column.name + arrow,
  );
  return h("th", { scope: "col", class: column.class, "aria-sort": direction }, button);
}

function bodyRow(row, i, columns, onpick, pickLabel, picked) {
  const cells = columns.map((column, at) => {
    const content = column.cell(row);
    if (at > 0 || !onpick) return h("td", { class: column.class }, content);
    const button = h(
      "button",
      { type: "button", class: "link", "aria-label": pickLabel(row), onclick: () => onpick(row) },
      content,
    );
    return h("th", { scope: "row", class: column.class }, button);
  });
  return h("tr", { "aria-rowindex": i + 2, class: picked && picked(row) ? "picked" : null }, cells);
}

// One cell: where a narrow page hides columns, a wider one would bring them back, empty.
function spacer(n) {
  const cell = h("td", {});
  cell.style.height = `${n * ROW_HEIGHT}px`;
  return h("tr", { class: "spacer", "aria-hidden": "true", hidden: n === 0 }, cell);
}

function sortRows(rows, columns, sorted) {
  const by = columns.find(column => column.key === sorted.key).sort;
  const sign = sorted.down ? -1 : 1;
  return rows
    .map(row => [by(row), row])
    .sort(([x], [y]) => (typeof x === "string" ? x.localeCompare(y) : (x ?? -Infinity) - (y ?? -Infinity)) * sign)
    .map(([, row]) => row);
}
