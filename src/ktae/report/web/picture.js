// A group as a picture to take along: an SVG file that needs nothing but itself.

const PICTURE = { columns: 88, width: 7.8, height: 19, most: 60 }; // characters, pixels, lines a rollout

function savePicture(g) {
  const link = h("a", { href: URL.createObjectURL(new Blob([pictureOf(g)], { type: "image/svg+xml" })), download: `${groupLabel(g).replace(/[^\w.-]+/g, "_")}.svg` });
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 1000);
}

// Pieces of text with a fill each (null: none), as lines of at most so many characters, broken at
// blanks: [[{ text, fill }]]. As in ktae.report.picture.
function linesOf(pieces, columns) {
  const lines = [];
  let line = [];
  const end = () => { lines.push(line); line = []; };
  for (const { text, fill } of pieces) {
    for (const c of text) {
      if (c === "\n") { end(); continue; }
      if (line.length >= columns) {
        const blank = line.findLastIndex((x) => x.c === " ") + 1;
        const rest = blank > 0 && c !== " " ? line.splice(blank) : [];
        end();
        line = rest;
      }
      line.push({ c, fill });
    }
  }
  end();
  return lines.map((characters) => characters.reduce((parts, { c, fill }) => {
    const last = parts[parts.length - 1];
    if (last?.fill === fill) last.text += c;
    else parts.push({ text: c, fill });
    return parts;
  }, []));
}

function pictureOf(g) {
  const { groups, rollouts, texts } = report, group = groupStatistics(g, state.preset), scale = fullShade(state.signal, g, group);
  const rows = Array.from({ length: groups.size[g] }, (_, i) => groups.first[g] + i).filter((r) => !leftOut(r));
  const { columns, width, height, most } = PICTURE, colours = new Map();
  const fill = (name) => {
    if (!colours.has(name)) {
      const probe = h("i", { class: name });
      document.body.append(probe);
      colours.set(name, getComputedStyle(probe).backgroundColor);
      probe.remove();
    }
    return colours.get(name);
  };
  const said = (text) => linesOf([{ text: spellOut(text.replace(/\r\n?/g, "\n")), fill: null }], columns);
  const signs = ["credit", "advantage"].includes(state.signal) ? [{ text: " for a right answer ", fill: fill("p8") }, { text: " ", fill: null }, { text: " against it ", fill: fill("n8") }] : [];
  const shaded = state.signal === "none" ? [] : [{ text: `  ${SIGNALS[state.signal]} of ${report.presets[state.preset].name}; the full shade is ${plain(scale, 2)}`, fill: null }];
  const lines = [...said(`Group ${groupName(g)}: ${groups.right[g]} of ${groups.known[g]} right`), ...(texts.prompt[g] ? said(texts.prompt[g]) : []), [], [...signs, ...shaded]];
  for (const r of [...rows].sort((x, y) => (rollouts.correct[y] ?? -1) - (rollouts.correct[x] ?? -1) || x - y)) {
    const pieces = segmentsOf(r).flatMap((segment) => segment.runs).map((run) => ({ text: textOfRun(run), fill: runClass(run, r, group, scale).split(" ").filter((x) => /^[pns]\d$/.test(x)).map(fill)[0] ?? null }));
    const its = linesOf(pieces, columns), reward = rollouts.reward[r] === null ? "none" : plain(rollouts.reward[r], 2);
    lines.push([], ...said(`${verdictName(r)}, rollout ${r - groups.first[g] + 1}: reward ${reward}, ${counted(rollouts.length[r], unitWord())}`), ...its.slice(0, most), ...(its.length > most ? said(`… ${counted(its.length - most, "more line")}`) : []));
  }
  const escape = (x) => x.replace(/&/g, "&amp;").replace(/</g, "&lt;"), parts = [];
  lines.forEach((line, y) => {
    let x = 16;
    for (const { text, fill: colour } of line) {
      if (colour) parts.push(`<rect x="${x}" y="${16 + y * height}" width="${text.length * width}" height="${height - 2}" rx="2" fill="${colour}"/>`);
      parts.push(`<text x="${x}" y="${30 + y * height}" textLength="${text.length * width}" xml:space="preserve">${escape(text)}</text>`);
      x += text.length * width;
    }
  });
  return `<svg xmlns="http://www.w3.org/2000/svg" width="${32 + columns * width}" height="${32 + lines.length * height}" font-family="monospace" font-size="13" fill="${colourOf("--text")}"><rect width="100%" height="100%" fill="${colourOf("--paper")}"/>${parts.join("")}</svg>`;
}
