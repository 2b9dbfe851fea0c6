// Histograms whose bars are links, and lines over training steps, as SVG.

const BARS_HEIGHT = 44;

function histogram({ name, low, high, most, bars }) {
  const width = 200 / bars.length;
  const picture = svg("svg", {
    viewBox: `0 0 200 ${BARS_HEIGHT + 2}`,
    class: "bars-picture",
    role: "group",
    "aria-label": name,
    preserveAspectRatio: "none",
  });
  bars.forEach(({ parts, label, link }, i) => {
    if (!parts.some(([n]) => n)) return;
    const area = { x: i * width, y: 0, width, height: BARS_HEIGHT + 2, class: "hit-area" };
    const to = svg("a", { href: linkTo(link), "aria-label": label, role: "link", tabindex: 0 });
    to.append(svg("title", {}, label), svg("rect", area));
    let top = BARS_HEIGHT + 1;
    for (const [n, kind] of parts) {
      const height = n ? Math.max(1.5, (n / most) * BARS_HEIGHT) : 0;
      top -= height;
      const place = { x: i * width + width * 0.08, y: Math.max(0, top), width: width * 0.84, height };
      to.append(svg("rect", { ...place, class: `${kind}-bar` }));
    }
    picture.append(to);
  });
  const axis = h("div", { class: "axis" }, h("span", {}, low), h("span", {}, high));
  return h("div", {}, h("div", { class: "axis top-axis" }, thousands(most)), picture, axis);
}

const CURVE = { width: 360, height: 150, left: 46, right: 12, top: 10, bottom: 26 };
const SMOOTHED = 11; // steps; where there are no more, their mean would be one flat line
const LINE_COLOURS = ["--toward-strong", "--against-strong", "--size", "--quiet"];

// One line, or one a run. `at` is a step that is marked.
function chart({ name, lines }, at = null) {
  const { width, height, left, right, top, bottom } = CURVE;
  const steps = lines.flatMap(line => line.steps);
  const [first, last] = [Math.min(...steps), Math.max(...steps)];
  const [low, high] = span(lines.flatMap(({ values }) => values.filter(x => x !== null)));
  const x = step => left + ((step - first) / (last - first || 1)) * (width - left - right);
  const y = value => top + (1 - (value - low) / (high - low || 1)) * (height - top - bottom);
  const ends = lines.map(line => `${line.name} from ${plain(line.values[0])} to ${plain(line.values.at(-1))}`);
  const label = `${name} over steps: ${ends.join("; ")}`;
  const picture = svg("svg", { viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": label, class: "curve" });
  for (const value of [low, (low + high) / 2, high]) {
    const line = { x1: left, x2: width - right, y1: y(value), y2: y(value), class: "grid" };
    picture.append(svg("line", line), word(left - 6, y(value) + 4, "end", short(value)));
  }
  picture.append(word(left, height - 8, "start", String(first)), word(width - right, height - 8, "end", String(last)));
  picture.append(word((left + width) / 2, height - 8, "middle", "step"));
  lines.forEach((line, i) => {
    const points = line.steps.map((step, j) => [step, line.values[j]]).filter(([, value]) => value !== null);
    const smoothed = points.length > SMOOTHED;
    const draws = [[points, smoothed ? "thin" : "thick"], ...(smoothed ? [[smooth(points), "thick"]] : [])];
    for (const [drawn, kind] of draws) {
      const d = drawn.map(([s, v], j) => `${j ? "L" : "M"}${x(s).toFixed(1)} ${y(v).toFixed(1)}`).join("");
      const path = svg("path", { d, class: kind });
      path.style.stroke = `var(${LINE_COLOURS[i % LINE_COLOURS.length]})`;
      picture.append(path);
    }
  });
  if (at !== null && at >= first && at <= last) {
    picture.append(svg("line", { x1: x(at), x2: x(at), y1: top, y2: height - bottom, class: "cursor" }));
  }
  const value = lines.length === 1 && at !== null ? lines[0].values[lines[0].steps.indexOf(at)] : undefined;
  return h("figure", {}, h("figcaption", {}, name, value === undefined ? null : h("b", {}, plain(value))), picture);
}

const chartGrid = (charts, at) =>
  h(
    "div",
    { class: "charts" },
    charts.map(x => chart(x, at)),
  );

// Whose line has which colour, of several.
function lineKey(lines) {
  if (lines.length < 2) return null;
  const marks = lines.map(({ name }, i) => {
    const mark = h("i", { class: "key" });
    mark.style.setProperty("--of", `var(${LINE_COLOURS[i % LINE_COLOURS.length]})`);
    return h("span", {}, mark, `${onOneLine(name)}  `);
  });
  return h("p", {}, marks);
}

const word = (x, y, anchor, text) => svg("text", { x, y, "text-anchor": anchor }, text);

function span(values) {
  let low = Math.min(...values);
  let high = Math.max(...values);
  if (low >= 0 && low < 0.5 * high) low = 0;
  if (low === high) [low, high] = low === 0 ? [-0.5, 0.5] : [Math.min(0, 2 * low), Math.max(0, 2 * high)];
  return [low, high];
}

// Running mean of `SMOOTHED` steps.
function smooth(points) {
  return points.map(([step], i) => {
    const window = points.slice(Math.max(0, i - 5), i + 6);
    return [step, window.reduce((sum, [, value]) => sum + value, 0) / window.length];
  });
}
