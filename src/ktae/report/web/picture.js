// A group as a picture to take along: an SVG file that needs nothing but itself.

const PICTURE = { columns: 88, width: 7.8, height: 19, most: 60 }; // characters, pixels, lines a response

// The file is named after the prompt, or else the group, and whose numbers it shows.
function savePicture(g) {
  const named = [report.texts.prompt[g]?.slice(0, 40) ?? report.groups.label[g], shadedBy()];
  const file = named.map(text => text.replace(/[^\w.-]+/g, "-").replace(/^-|-$/g, "")).join("_");
  const href = URL.createObjectURL(new Blob([pictureOf(g)], { type: "image/svg+xml" }));
  document.adoptNode(el`<a href=${href} download="${file}.svg"></a>`).click();
  setTimeout(() => URL.revokeObjectURL(href), 1000);
}

// Pieces of text with a class each, as lines of at most so many characters: [[{ text, shade }]].
function linesOf(pieces) {
  const lines = [[]];
  let length = 0;
  for (const { text, shade } of pieces) {
    for (const word of text.match(/\s|\S{1,80}/gu) ?? []) {
      if (word === "\n" || (length + word.length > PICTURE.columns && word !== " ")) {
        lines.push([]);
        length = 0;
      }
      if (word === "\n") continue;
      const last = lines.at(-1).at(-1);
      if (last && last.shade === shade) last.text += word;
      else lines.at(-1).push({ text: word, shade });
      length += word.length;
    }
  }
  return lines;
}

const plainLines = text => linesOf([{ text: spellOut(text.replace(/\r\n?/g, "\n")) }]);

// The background of a class of the style sheet, as the theme has it.
function backgroundOf(name) {
  const probe = el`<i class=${name}></i>`;
  document.body.append(probe);
  const colour = getComputedStyle(probe).backgroundColor;
  probe.remove();
  return colour;
}

function linesOfGroup(g) {
  const { groups, rollouts, texts } = report;
  const full = fullShade(g);
  const signs = [
    { text: " toward a correct answer ", shade: "p8" },
    { text: " " },
    { text: " against it ", shade: "n8" },
  ];
  const order = (x, y) => (rollouts.correct[y] ?? -1) - (rollouts.correct[x] ?? -1) || x - y;
  const response = r => {
    const shadeOf = run => shadeClass(signalAt(r, strongestOf(run, r)), full) || undefined;
    const lines = linesOf(runsIn(r).map(run => ({ text: shownText(run.text), shade: shadeOf(run) })));
    const left = lines.length - PICTURE.most;
    const head = `${outcomeOf(r)}, response ${numberOf(r) + 1}: ${rewardOf(r)}`;
    const rest = left > 0 ? plainLines(`… ${counted(left, "more line")}`) : [];
    return [[], ...plainLines(head), ...lines.slice(0, PICTURE.most), ...rest];
  };
  return [
    ...plainLines(`Group ${groupName(g)}: ${groups.n_correct[g]} of ${groups.known[g]} correct`),
    ...(texts.prompt[g] ? plainLines(texts.prompt[g]) : []),
    [],
    [...signs, { text: `  ${shadedBy()}; the full shade is ${plain(full, 2)}` }],
    ...rolloutsOf(g).sort(order).flatMap(response),
  ];
}

function pictureOf(g) {
  const { columns, width, height } = PICTURE;
  const lines = linesOfGroup(g);
  const shades = new Set(lines.flat().map(({ shade }) => shade));
  const fills = new Map([...shades].map(shade => [shade, shade && backgroundOf(shade)]));
  const drawn = lines.flatMap((line, y) => {
    let x = 16;
    return line.map(({ text, shade }) => {
      const [left, top, size] = [x, 16 + y * height, text.length * width];
      x += size;
      return [
        shade &&
          svg`<rect x=${left} y=${top} width=${size} height=${height - 2} rx="2" fill=${fills.get(shade)}></rect>`,
        svg`<text x=${left} y=${top + 14} textLength=${size} xml:space="preserve">${text}</text>`,
      ];
    });
  });
  const picture = el`<svg width=${32 + columns * width} height=${32 + lines.length * height} font-family="monospace"
      font-size="13" fill=${getComputedStyle(document.body).color}>
    <rect width="100%" height="100%" fill=${backgroundOf("pane")}></rect>
    ${drawn}
  </svg>`;
  return new XMLSerializer().serializeToString(picture);
}
