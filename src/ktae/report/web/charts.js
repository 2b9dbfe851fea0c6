// Histograms whose bars are links, and lines over training steps.

function histogram(name, ends, bars) {
  const most = Math.max(1, ...bars.map(([parts]) => parts.reduce((sum, [n]) => sum + n, 0)));
  const part = ([n, kind]) => n > 0 && el`<i class="${kind}-bar" --share="${n / most}"></i>`;
  const bar = ([parts, label, link]) =>
    parts.some(([n]) => n)
      ? el`<a href=${linkTo(link)} aria-label=${label} title=${label}>${parts.map(part)}</a>`
      : el`<span></span>`;
  return el`<div>
    <div class="axis">${thousands(most)}</div>
    <div class="bars" role="group" aria-label=${name}>${bars.map(bar)}</div>
    <div class="axis">${ends.map(end => el`<span>${end}</span>`)}</div>
  </div>`;
}

const CURVE = { width: 360, height: 150, left: 46, right: 12, top: 10, bottom: 26 };
const LINE_COLOURS = ["--toward-strong", "--against-strong", "--size", "--quiet"];
const colourOf = i => `var(${LINE_COLOURS[i % LINE_COLOURS.length]})`;

// One line, or one a run. Pointing at a step says its values.
function chart({ name, lines }) {
  const { width, height, left, right, top, bottom } = CURVE;
  const steps = [...new Set(lines.flatMap(line => line.steps))].sort((x, y) => x - y);
  const [first, last] = [steps[0], steps.at(-1)];
  const [low, high] = rangeOf(lines.flatMap(({ values }) => values.filter(value => value !== null)));
  const x = step => left + ((step - first) / (last - first || 1)) * (width - left - right);
  const y = value => top + (1 - (value - low) / (high - low || 1)) * (height - top - bottom);
  const word = (at, down, anchor, text) => svg`<text x=${at} y=${down} text-anchor=${anchor}>${text}</text>`;
  const grid = [low, (low + high) / 2, high].map(value => [
    svg`<line x1=${left} x2=${width - right} y1=${y(value)} y2=${y(value)} class="grid"></line>`,
    word(left - 6, y(value) + 4, "end", short(value)),
  ]);
  const curves = lines.map((line, i) => {
    const points = line.steps.flatMap((step, j) => (line.values[j] === null ? [] : [[x(step), y(line.values[j])]]));
    return svg`<polyline points=${points.join(" ")} --of=${colourOf(i)}></polyline>`;
  });
  const valuesAt = step =>
    lines.map(line => `${lines.length > 1 ? `${line.name} ` : ""}${plain(line.values[line.steps.indexOf(step)])}`);
  const bands = steps.map((step, j) => {
    const [from, to] = [steps[j - 1] ?? step, steps[j + 1] ?? step].map(other => (x(step) + x(other)) / 2);
    return svg`<rect x=${from - 1} y=${top} width=${to - from + 2} height=${height - top - bottom}>
      <title>step ${step}: ${valuesAt(step).join(", ")}</title>
    </rect>`;
  });
  const ends = lines.map(line => `${line.name} from ${plain(line.values[0])} to ${plain(line.values.at(-1))}`);
  return el`<figure>
    <figcaption>${name}</figcaption>
    <svg viewBox="0 0 ${width} ${height}" role="img" aria-label="${name} over steps: ${ends.join("; ")}" class="curve">
      ${grid}${curves}${bands}
      ${word(left, height - 8, "start", first)}${word(width - right, height - 8, "end", last)}
      ${word((left + width) / 2, height - 8, "middle", "step")}
    </svg>
  </figure>`;
}

const chartGrid = charts => el`<div class="charts">${charts.map(chart)}</div>`;

// Whose line has which colour, of several.
function lineKey(lines) {
  const key = ({ name }, i) => el`<span><i class="key" --of=${colourOf(i)}></i>${onOneLine(name)} </span>`;
  return lines.length > 1 && el`<p>${lines.map(key)}</p>`;
}

function rangeOf(values) {
  let [low, high] = [Math.min(...values), Math.max(...values)];
  if (low >= 0 && low < 0.5 * high) low = 0;
  if (low === high) [low, high] = low === 0 ? [-0.5, 0.5] : [Math.min(0, 2 * low), Math.max(0, 2 * high)];
  return [low, high];
}
