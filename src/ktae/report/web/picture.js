// A group as a picture to take along: an SVG file that needs nothing but itself.

const PICTURE = { columns: 88, width: 7.8, height: 19, most: 60 }; // characters, pixels, lines a rollout

// The file is named after the prompt, or else the group, and whose numbers it shows.
function savePicture(g) {
  const named = [report.texts.prompt[g]?.slice(0, 40) ?? groupLabel(g), shadedBy()];
  const file = named.map(text => text.replace(/[^\w.-]+/g, "-").replace(/^-|-$/g, "")).join("_");
  const picture = new Blob([pictureOf(g)], { type: "image/svg+xml" });
  const link = h("a", { href: URL.createObjectURL(picture), download: `${file}.svg` });
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 1000);
}

// Pieces of text with a fill each (null: none), as lines of at most so many characters, broken at
// blanks: [[{ text, fill }]]. As in ktae.report.group.
function linesOf(pieces, columns) {
  const lines = [];
  let line = [];
  const end = () => {
    lines.push(line);
    line = [];
  };
  for (const { text, fill } of pieces) {
    for (const c of text) {
      if (c === "\n") {
        end();
        continue;
      }
      if (line.length >= columns) {
        const blank = line.findLastIndex(x => x.c === " ") + 1;
        const rest = blank > 0 && c !== " " ? line.splice(blank) : [];
        end();
        line = rest;
      }
      line.push({ c, fill });
    }
  }
  end();
  return lines.map(characters =>
    characters.reduce((parts, { c, fill }) => {
      const last = parts[parts.length - 1];
      if (last?.fill === fill) last.text += c;
      else parts.push({ text: c, fill });
      return parts;
    }, []),
  );
}

const escapeText = text => text.replace(/&/g, "&amp;").replace(/</g, "&lt;");

// The background of a class of the style sheet, as the theme has it.
function backgroundOf(name) {
  const probe = h("i", { class: name });
  document.body.append(probe);
  const colour = getComputedStyle(probe).backgroundColor;
  probe.remove();
  return colour;
}

function pictureOf(g) {
  const { groups, rollouts, texts } = report;
  const { columns, width, height, most } = PICTURE;
  const fills = new Map();
  const fill = name => fills.get(name) ?? (fills.set(name, backgroundOf(name)), fills.get(name));
  const plainLines = text => linesOf([{ text: spellOut(text.replace(/\r\n?/g, "\n")), fill: null }], columns);
  const scale = fullShade(state.signal, g);
  const signs = [
    { text: " toward a correct answer ", fill: fill("p8") },
    { text: " ", fill: null },
    { text: " against it ", fill: fill("n8") },
  ];
  const whose = { text: `  ${shadedBy()}; the full shade is ${plain(scale, 2)}`, fill: null };
  const lines = [
    ...plainLines(`Group ${groupName(g)}: ${groups.n_correct[g]} of ${groups.known[g]} correct`),
    ...(texts.prompt[g] ? plainLines(texts.prompt[g]) : []),
    [],
    [...(isSigned(state.signal) ? signs : []), whose],
  ];
  const order = (x, y) => (rollouts.correct[y] ?? -1) - (rollouts.correct[x] ?? -1) || x - y;
  for (const r of rolloutsOf(g).sort(order)) {
    const pieces = segmentsOf(r)
      .flatMap(segment => segment.runs)
      .map(run => {
        const shade = runClass(run, r, scale)
          .split(" ")
          .find(x => /^[pns]\d$/.test(x));
        return { text: textOfRun(run), fill: shade ? fill(shade) : null };
      });
    const its = linesOf(pieces, columns);
    const reward = rollouts.reward[r] === null ? "none" : plain(rollouts.reward[r], 2);
    const facts = `${outcomeName(r)}, response ${numberOf(r) + 1}: reward ${reward}`;
    const rest = its.length > most ? plainLines(`… ${counted(its.length - most, "more line")}`) : [];
    lines.push([], ...plainLines(facts), ...its.slice(0, most), ...rest);
  }
  const parts = lines.flatMap((line, y) => {
    let x = 16;
    return line.map(({ text, fill: colour }) => {
      const size = text.length * width;
      const at = down => `x="${x}" y="${down + y * height}"`;
      const box = `<rect ${at(16)} width="${size}" height="${height - 2}" rx="2" fill="${colour}"/>`;
      const word = `<text ${at(30)} textLength="${size}" xml:space="preserve">${escapeText(text)}</text>`;
      x += size;
      return (colour ? box : "") + word;
    });
  });
  const [ink, paper] = [getComputedStyle(document.body).color, backgroundOf("pane")];
  const size = `width="${32 + columns * width}" height="${32 + lines.length * height}"`;
  const ground = `<rect width="100%" height="100%" fill="${paper}"/>`;
  const open = `<svg xmlns="http://www.w3.org/2000/svg" ${size} font-family="monospace" font-size="13" fill="${ink}">`;
  return `${open}${ground}${parts.join("")}</svg>`;
}
