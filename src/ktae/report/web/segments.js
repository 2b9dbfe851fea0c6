// A response as a conversation: its segments one below the other, and JSON as people read it.

const LONG = 700; // characters of what others wrote, above which it is folded

const SEGMENTS = {
  said: { name: "Assistant", folds: false },
  thought: { name: "Thought", folds: true },
  call: { name: "Tool call", folds: true },
  others: { name: "Tool or user (no credit)", folds: true },
};

// The segments of a rollout: [{ kind, name, isFolded, isAlone, tokens, runs }], in order.
function segmentsOf(rollout) {
  const ids = idsOf(rollout);
  const parts = report.rollouts.segments[rollout] ?? [["said", 0, ids.length]];
  return parts.map(([kind, begin, end]) => {
    const runs = runsOf(ids.subarray(begin, end)).map(run => ({ ...run, first: run.first + begin }));
    asJson(runs.map(run => run.text)).forEach((text, i) => (runs[i].shown = text));
    const isLong = kind === "call" || runs.reduce((n, run) => n + run.text.length, 0) > LONG;
    const { name, folds } = SEGMENTS[kind];
    return { kind, name, isFolded: folds && isLong, isAlone: parts.length === 1, tokens: end - begin, runs };
  });
}

// A segment's element: with a heading that says who wrote it, and folded where it is long.
function segmentElement({ kind, name, isFolded, isAlone, tokens }, body) {
  if (isAlone && kind === "said") return body;
  const head = el`<span class="who">${name}</span>`;
  return el`<div class="segment ${kind}">
    ${
      SEGMENTS[kind].folds
        ? el`<details open=${!isFolded}>
            <summary>${head}<span class="quiet"> ${counted(tokens, report.unit)}</span></summary>
            ${body}
          </details>`
        : [head, body]
    }
  </div>`;
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
  let [depth, isInside] = [0, false];
  for (const { index: i, 0: part } of whole.matchAll(/\\u.{4}|\\.|[^]/gu)) {
    if (part === '"') isInside = !isInside;
    if (isInside || part === '"') {
      const isCode = part.length > 1 && !/^\\[bfrt]/.test(part); // \times and \frac are meant
      shown[i] = isCode ? JSON.parse(`"${part}"`) : part;
    } else if (/\S/.test(part)) {
      const [opens, closes] = ["{[".includes(part), "}]".includes(part)];
      depth += opens - closes;
      const line = `\n${"  ".repeat(depth)}`;
      shown[i] = closes ? line + part : opens || part === "," ? part + line : part === ":" ? ": " : part;
    }
  }
  let at = 0;
  return texts.map(text => shown.slice(at, (at += text.length)).join(""));
}

// Line breaks are kept and shown by a sign, so that a token of line breaks can be pointed at.
const shownText = text => spellOut(text.replace(/\r\n?/g, "\n")).replace(/\n/g, "↵\n");
const textOfRun = run => (run.shown === run.text ? shownText(run.text) : spellOut(run.shown));
