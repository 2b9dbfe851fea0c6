// A response as a conversation: its segments one below the other.

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
  const parts = report.rollouts.segments[rollout] ?? [["said", 0, ids.length, null]];
  let turns = 0;
  return parts.map(([kind, begin, end, credit]) => {
    const runs = runsOf(ids.subarray(begin, end)).map(run => ({ ...run, first: run.first + begin }));
    const isLong = kind === "call" || runs.reduce((n, run) => n + run.text.length, 0) > LONG;
    const { name, folds } = SEGMENTS[kind];
    const turn = credit === null ? "" : ` · turn ${++turns}: mean credit ${signed(credit)}`;
    return { kind, name, turn, isFolded: folds && isLong, isAlone: parts.length === 1, tokens: end - begin, runs };
  });
}

// A segment's element: with a heading that says who wrote it, and folded where it is long.
function segmentElement({ kind, name, turn, isFolded, isAlone, tokens }, body) {
  if (isAlone && kind === "said") return body;
  const head = el`<span class="who">${name}</span>`;
  return el`<div class="segment ${kind}">
    ${
      SEGMENTS[kind].folds
        ? el`<details open=${!isFolded}>
            <summary>${head}<span class="quiet"> ${counted(tokens, report.unit)}${turn}</span></summary>
            ${body}
          </details>`
        : [head, turn && el`<span class="quiet">${turn}</span>`, body]
    }
  </div>`;
}

// Line breaks are kept and shown by a sign, so that a token of line breaks can be pointed at.
const shownText = text => spellOut(text.replace(/\r\n?/g, "\n")).replace(/\n/g, "↵\n");
