// A group as a picture to take along: an SVG file that needs nothing but itself.

const PICTURE = { columns: 88, width: 7.8, height: 19, most: 60 }; // characters, pixels, lines a rollout

function savePicture(g) {
  const link = h("a", { href: URL.createObjectURL(new Blob([pictureOf(g)], { type: "image/svg+xml" })), download: `${groupLabel(g).replace(/[^\w.-]+/g, "_")}.svg` });
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 1000);
}

function pictureOf(g) {
  const { groups, rollouts } = report, group = groupStatistics(g, state.preset), scale = fullShade(state.signal, g, group);
  const rows = Array.from({ length: groups.size[g] }, (_, i) => groups.first[g] + i).filter((r) => !leftOut(r));
  const paper = colourOf("--paper"), text = colourOf("--text"), colours = new Map();
  const fill = (name) => {
    if (!colours.has(name)) {
      const probe = h("i", { class: name });
      document.body.append(probe);
      colours.set(name, getComputedStyle(probe).backgroundColor);
      probe.remove();
    }
    return colours.get(name);
  };
  const escape = (x) => x.replace(/&/g, "&amp;").replace(/</g, "&lt;");
  const parts = [], { columns, width, height, most } = PICTURE;
  let line = 1, column = 0;
  const write = (x, style = "") => parts.push(`<text x="${16 + column * width}" y="${14 + line * height}" xml:space="preserve" ${style}>${escape(x)}</text>`);
  write(`${groupName(g)}: ${groups.right[g]} of ${groups.known[g]} right. Shaded: ${report.presets[state.preset].name}`, 'font-weight="bold"');
  for (const r of [...rows].sort((x, y) => (rollouts.correct[y] ?? -1) - (rollouts.correct[x] ?? -1) || x - y)) {
    line += 2;
    write(`Rollout ${r - groups.first[g] + 1}, ${verdictName(r)}`, 'font-weight="bold"');
    const last = line + most;
    line++;
    column = 0;
    for (const run of segmentsOf(r).flatMap((segment) => segment.runs)) {
      if (line > last) break;
      const name = runClass(run, r, group, scale).split(" ").find((x) => /^[pns]\d$/.test(x));
      textOfRun(run).split("\n").forEach((piece, i) => {
        if (i) { line++; column = 0; }
        for (let rest = piece; rest; ) {
          if (column >= columns) { line++; column = 0; }
          const here = rest.slice(0, columns - column);
          if (name) parts.push(`<rect x="${16 + column * width}" y="${line * height}" width="${here.length * width}" height="${height - 2}" rx="2" fill="${fill(name)}"/>`);
          write(here);
          column += here.length;
          rest = rest.slice(here.length);
        }
      });
    }
    column = 0;
    if (line > last) write("…");
  }
  const size = [32 + columns * width, 32 + (line + 1) * height];
  return `<svg xmlns="http://www.w3.org/2000/svg" width="${size[0]}" height="${size[1]}" font-family="monospace" font-size="13" fill="${text}"><rect width="100%" height="100%" fill="${paper}"/>${parts.join("")}</svg>`;
}
