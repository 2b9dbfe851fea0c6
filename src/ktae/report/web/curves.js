// A line over training steps, as SVG.

const CURVE = { width: 360, height: 150, left: 46, right: 12, top: 10, bottom: 26 };
const SMOOTHED = 11; // steps; where there are no more, their mean would be one flat line

function curve(steps, values, { name, at = null, range = null }) {
  const known = values.map((value, i) => [steps[i], value]).filter(([, value]) => value !== null);
  const { width, height, left, right, top, bottom } = CURVE;
  const [low, high] = range ?? span(known.map(([, value]) => value));
  const x = (step) => left + ((step - steps[0]) / (steps[steps.length - 1] - steps[0] || 1)) * (width - left - right);
  const y = (value) => top + (1 - (value - low) / (high - low || 1)) * (height - top - bottom);
  const label = `${name} over steps: first ${plain(known[0]?.[1], 3)}, last ${plain(known[known.length - 1]?.[1], 3)}`;
  const picture = svg("svg", { viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": label, class: "curve" });
  for (const value of [low, (low + high) / 2, high]) {
    picture.append(svg("line", { x1: left, x2: width - right, y1: y(value), y2: y(value), class: "grid" }), word(left - 6, y(value) + 4, "end", short(value)));
  }
  picture.append(word(left, height - 8, "start", String(steps[0])), word(width - right, height - 8, "end", String(steps[steps.length - 1])), word((left + width) / 2, height - 8, "middle", "step"));
  if (low < 0 && high > 0) picture.append(svg("line", { x1: left, x2: width - right, y1: y(0), y2: y(0), class: "zero" }));
  const smoothed = known.length > SMOOTHED;
  picture.append(svg("path", { d: path(known.map(([s, v]) => [x(s), y(v)])), class: smoothed ? "thin" : "thick" }));
  if (smoothed) picture.append(svg("path", { d: path(smooth(known).map(([s, v]) => [x(s), y(v)])), class: "thick" }));
  if (at !== null) {
    picture.append(svg("line", { x1: x(at), x2: x(at), y1: top, y2: height - bottom, class: "cursor" }));
    const here = known.find(([step]) => step === at);
    if (here) picture.append(svg("circle", { cx: x(at), cy: y(here[1]), r: 4, class: "dot" }));
  }
  return picture;
}

const path = (points) => points.map(([x, y], i) => `${i ? "L" : "M"}${x.toFixed(1)} ${y.toFixed(1)}`).join("");

function word(x, y, anchor, text) {
  return svg("text", { x, y, "text-anchor": anchor }, text);
}

function span(values) {
  let low = Math.min(...values), high = Math.max(...values);
  if (low >= 0 && low < 0.5 * high) low = 0;
  if (low === high) [low, high] = low === 0 ? [-0.5, 0.5] : [Math.min(0, 2 * low), Math.max(0, 2 * high)];
  return [low, high];
}

const short = (x) => (x === 0 ? "0" : Math.abs(x) >= 100 ? x.toFixed(0) : Math.abs(x) >= 0.01 ? String(Number(x.toPrecision(2))) : x.toExponential(0)).replaceAll("-", "−");

// Running mean of `SMOOTHED` steps.
function smooth(points) {
  return points.map(([step], i) => {
    const window = points.slice(Math.max(0, i - 5), i + 6);
    return [step, window.reduce((sum, [, value]) => sum + value, 0) / window.length];
  });
}
