// Tokens by the share of incorrect (across) and of right rollouts (up) that contain them.

const PAD = 58; // left and below
const EDGE = 28; // right and above
const scatterScale = { root: true };

function scatter(rows, { onpick, picked }) {
  const canvas = h("canvas", { role: "img", "aria-label": `${counted(rows.length, unitWord())} by share of wrong rollouts (across) and of right rollouts (up) that contain them; the table lists the same tokens` });
  const tip = h("div", { class: "tip", "aria-hidden": "true", hidden: true });
  const box = h("div", { class: "scatter" }, canvas, tip);
  let points = [];
  const paint = () => {
    const width = box.clientWidth, height = Math.round(Math.min(560, Math.max(300, width * 0.62)));
    if (!width) return;
    const ratio = devicePixelRatio || 1;
    [canvas.width, canvas.height] = [width * ratio, height * ratio];
    canvas.style.height = `${height}px`;
    const context = canvas.getContext("2d");
    context.scale(ratio, ratio);
    points = place(rows, width, height);
    drawAxes(context, width, height);
    drawPoints(context, points, picked);
    drawNames(context, points, width, height);
  };
  new ResizeObserver(paint).observe(box);
  box.repaint = paint;
  canvas.addEventListener("pointermove", (event) => {
    const point = nearest(points, event);
    canvas.style.cursor = point ? "pointer" : "default";
    tip.hidden = !point;
    if (!point) return;
    tip.textContent = `${point.row.text}  ${signed(point.row.credit)}, ${percent(point.row.shareTrue)} of right, ${percent(point.row.shareFalse)} of wrong`;
    tip.style.left = `${Math.min(point.x + 10, box.clientWidth - 260)}px`;
    tip.style.top = `${point.y + 12}px`;
  });
  canvas.addEventListener("pointerleave", () => { tip.hidden = true; });
  canvas.addEventListener("click", (event) => {
    const point = nearest(points, event);
    if (point) onpick(point.row);
  });
  return box;
}

const stretch = (share) => (scatterScale.root ? Math.cbrt(share) : share);

// Equal shares would lie on one point: they are spread a little, always alike.
function place(rows, width, height) {
  const spread = (n) => (((n * 2654435761) >>> 0) / 2 ** 32 - 0.5) * 10;
  return rows.map((row) => ({
    row,
    x: PAD + stretch(row.shareFalse) * (width - PAD - EDGE) + spread(row.id),
    y: height - PAD - stretch(row.shareTrue) * (height - PAD - EDGE) + spread(row.id + 7),
  }));
}

// A colour of the style sheet as the theme has it; a canvas does not know the style sheet's names.
function colourOf(name) {
  const probe = h("i", {});
  probe.style.color = `var(${name})`;
  document.body.append(probe);
  const colour = getComputedStyle(probe).color;
  probe.remove();
  return colour;
}

function drawAxes(context, width, height) {
  context.strokeStyle = colourOf("--line");
  context.fillStyle = colourOf("--quiet");
  context.font = "12px system-ui, sans-serif";
  context.lineWidth = 1;
  const at = (share) => [PAD + stretch(share) * (width - PAD - EDGE), height - PAD - stretch(share) * (height - PAD - EDGE)];
  context.beginPath();
  for (const share of scatterScale.root ? [0, 0.01, 0.1, 0.3, 0.6, 1] : [0, 0.25, 0.5, 0.75, 1]) {
    const [x, y] = at(share);
    context.moveTo(x, EDGE);
    context.lineTo(x, height - PAD);
    context.moveTo(PAD, y);
    context.lineTo(width - EDGE, y);
    context.textAlign = "center";
    context.fillText(`${100 * share} %`, x, height - PAD + 18);
    context.textAlign = "right";
    context.fillText(`${100 * share} %`, PAD - 6, y + 4);
  }
  context.moveTo(...at(0));
  context.lineTo(...at(1));
  context.stroke();
  context.textAlign = "center";
  context.fillText(inUnits("share of wrong rollouts with the token"), PAD + (width - PAD) / 2, height - 8);
  context.save();
  context.translate(11, (height - PAD) / 2);
  context.rotate(-Math.PI / 2);
  context.fillText("share of right rollouts", 0, 0);
  context.restore();
}

function drawPoints(context, points, picked) {
  const strong = { p: colourOf("--for-strong"), n: colourOf("--against-strong") }, none = colourOf("--line");
  const scale = largestOnPage(report.presets[0]);
  for (const { row, x, y } of points) {
    const strength = Math.abs(row.credit) / scale;
    context.globalAlpha = row.faint ? 0.15 : 0.45 + 0.5 * Math.min(1, strength);
    context.fillStyle = row.credit === 0 ? none : strong[row.credit > 0 ? "p" : "n"];
    context.beginPath();
    context.arc(x, y, 3 + 1.5 * strength, 0, 7);
    context.fill();
  }
  context.globalAlpha = 1;
  const chosen = points.find(({ row }) => picked(row));
  if (!chosen) return;
  context.strokeStyle = colourOf("--text");
  context.lineWidth = 2;
  context.beginPath();
  context.arc(chosen.x, chosen.y, 8, 0, 7);
  context.stroke();
}

// Names of the tokens of greatest impact, where there is room.
function drawNames(context, points, width, height) {
  context.font = "12px ui-monospace, monospace";
  context.fillStyle = colourOf("--text");
  context.textAlign = "left";
  const taken = [];
  const strongest = [...points].sort((p, q) => Math.abs(q.row.impact) - Math.abs(p.row.impact)).slice(0, 200);
  for (const { row, x, y } of strongest) {
    if (row.impact === 0) break;
    if (row.faint) continue;
    const text = row.text.length > 18 ? `${row.text.slice(0, 17)}…` : row.text;
    const w = context.measureText(text).width;
    const box = [x + 6, y - 12, x + 8 + w, y + 4];
    if (box[2] > width || box[1] < 0 || box[3] > height - PAD) continue;
    if (taken.some((b) => b[0] < box[2] && box[0] < b[2] && b[1] < box[3] && box[1] < b[3])) continue;
    taken.push(box);
    context.fillText(text, x + 7, y + 1);
  }
}

function nearest(points, event) {
  let best = null, least = 14 ** 2;
  for (const point of points) {
    const distance = (point.x - event.offsetX) ** 2 + (point.y - event.offsetY) ** 2;
    if (distance < least) [best, least] = [point, distance];
  }
  return best;
}
