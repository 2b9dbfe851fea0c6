// A rollout as a conversation: its segments one below the other, and JSON as people read it.
//
// What is drawn is cut into chunks at line ends. A chunk is one text node until it comes near the
// viewport; then its tokens become elements of their own, which changes no layout.

const CHUNK = 160; // tokens, then on to the end of the line
const LONGEST_CHUNK = 1200;
const LONG = 700; // characters of what others wrote, above which it is folded

const SEGMENTS = {
  said: ["Assistant", false],
  thought: ["Thought", true],
  call: ["Tool call", true],
  others: ["Tool or user (no credit)", true],
};

// The segments of a rollout: [{ kind, name, folded, runs }], in order.
function segmentsOf(rollout) {
  const ids = idsOf(rollout);
  const parts = report.rollouts.segments[rollout] ?? [["said", 0, ids.length]];
  return parts.map(([kind, begin, end]) => {
    const runs = runsOf(ids.subarray(begin, end)).map(run => ({ ...run, first: run.first + begin }));
    const [name, folds] = SEGMENTS[kind];
    const long = runs.reduce((n, run) => n + run.text.length, 0) > LONG;
    for (const [i, text] of asJson(runs.map(run => run.text)).entries()) runs[i].shown = text;
    return {
      kind,
      name,
      folded: folds && (long || kind === "call"),
      alone: parts.length === 1,
      tokens: end - begin,
      runs,
    };
  });
}

// Texts that together are one JSON document, with its escapes undone and a line for each entry: of
// each text what is shown of it. Other texts as they are.
function asJson(texts) {
  const whole = texts.join("");
  if (!/^\s*[{[]/.test(whole)) return texts;
  try {
    JSON.parse(whole);
  } catch {
    return texts;
  }
  const shown = new Array(whole.length).fill("");
  let depth = 0,
    inside = false;
  for (let i = 0; i < whole.length; i++) {
    const c = whole[i];
    if (inside && c === "\\") {
      const length = whole[i + 1] === "u" ? 6 : 2,
        escape = whole.slice(i, i + length);
      shown[i] = /[bfrt]/.test(escape[1]) ? escape : JSON.parse(`"${escape}"`); // \times and \frac are meant
      i += length - 1;
    } else if (c === '"') {
      inside = !inside;
      shown[i] = c;
    } else if (inside || !/\s/.test(c)) {
      const opens = !inside && "{[".includes(c),
        closes = !inside && "}]".includes(c);
      depth += opens - closes;
      const line = `\n${"  ".repeat(Math.max(0, depth))}`;
      shown[i] = closes ? line + c : opens || (!inside && c === ",") ? c + line : !inside && c === ":" ? ": " : c;
    }
  }
  let at = 0;
  return texts.map(text => shown.slice(at, (at += text.length)).join(""));
}

// Line breaks are kept and shown by a sign, so that a token of line breaks can be pointed at.
const shownText = text => spellOut(text.replace(/\r\n?/g, "\n")).replace(/\n/g, "↵\n");
const textOfRun = run => (run.shown === run.text ? shownText(run.text) : spellOut(run.shown));

// The runs of a segment in chunks: [{ rollout, runs, element, shaded }].
function chunksOf(rollout, runs) {
  const chunks = [];
  for (let i = 0, from = 0, tokens = 0; i < runs.length; i++) {
    tokens += runs[i].count;
    const full = (tokens >= CHUNK && runs[i].text.endsWith("\n")) || tokens >= LONGEST_CHUNK;
    if (!full && i + 1 < runs.length) continue;
    const part = runs.slice(from, i + 1);
    const element = h("div", { class: "chunk", role: "presentation" }, part.map(textOfRun).join(""));
    element.chunk = { rollout, runs: part, element, shaded: false };
    chunks.push(element.chunk);
    [from, tokens] = [i + 1, 0];
  }
  return chunks;
}

// A segment's element: with a heading that says who wrote it, and folded where it is long.
function segmentElement(segment, body) {
  if (segment.alone && segment.kind === "said") return body;
  const name = h("span", { class: "who" }, segment.name),
    size = h("span", { class: "quiet" }, ` ${counted(segment.tokens, report.unit)}`);
  const inner = SEGMENTS[segment.kind][1]
    ? h("details", { open: !segment.folded }, h("summary", {}, name, size), body)
    : h("div", {}, name, body);
  return h("section", { class: `segment ${segment.kind}`, "aria-label": segment.name }, inner);
}
