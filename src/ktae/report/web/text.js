// Tokens to text. Text comes from models: it only ever becomes text nodes, and characters that could
// reorder or hide other text are written out.

const HIDDEN = new RegExp(
  String.raw`[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u00ad\u061c\u115f\u1160\u17b4\u17b5\u180e\u200b\u200e\u200f` +
    String.raw`\u2028-\u202e\u2060-\u206f\u3164\ufeff\ufff9-\ufffb\u{e0000}-\u{e0fff}]`,
  "gu",
);
const decoder = new TextDecoder("utf-8", { fatal: true });
const lenient = new TextDecoder("utf-8");

const hex = number => number.toString(16).toUpperCase().padStart(2, "0");
const spellOut = text => text.replace(HIDDEN, c => `⟨${hex(c.codePointAt(0))}⟩`);

// On one line, with blanks as signs: for tables and titles.
const onOneLine = text =>
  spellOut(
    text
      .replace(/\r\n?|\n/g, "↵")
      .replace(/\t/g, "⇥")
      .replace(/^ +| +$/g, s => "␣".repeat(s.length)),
  );

function tokenText(rank) {
  const entry = report.vocabulary.text[rank];
  if (entry === null) return `⟨#${report.vocabulary.id[rank]}⟩`;
  if (typeof entry === "string") return entry;
  return `⟨${entry.map(hex).join(" ")}⟩`;
}

const tokenLabel = rank => onOneLine(tokenText(rank)) || "(empty)";

function tryDecode(bytes) {
  try {
    return decoder.decode(new Uint8Array(bytes));
  } catch {
    return null;
  }
}

// Whether a boundary between two texts may not be drawn: inside a cluster of characters.
const EXTENDS = /^[\p{M}\u200d\ufe0e\ufe0f\u{1f3fb}-\u{1f3ff}\u1160-\u11ff]/u;
const REACHES = /(\u200d|[\u094d\u09cd\u0a4d\u0acd\u0b4d\u0bcd\u0c4d\u0ccd\u0d4d\u0dca\u1039\u17d2])$/u;
const FLAGS = /\p{RI}$/u;
const FLAG = /^\p{RI}/u;
const isInside = (left, right) => EXTENDS.test(right) || REACHES.test(left) || (FLAGS.test(left) && FLAG.test(right));

// Runs of tokens that can be drawn apart without breaking a character or cluster:
// [{ text, first, count }].
function runsOf(ids) {
  const runs = [];
  let [bytes, begin] = [null, 0];
  const push = (text, first, count) => {
    const last = runs[runs.length - 1];
    if (last && isInside(last.text, text)) {
      last.text += text;
      last.count += count;
    } else runs.push({ text, first, count });
  };
  const flush = end => {
    if (bytes) push(lenient.decode(new Uint8Array(bytes)), begin, end - begin);
    bytes = null;
  };
  for (let i = 0; i < ids.length; i++) {
    const entry = report.vocabulary.text[ids[i]];
    if (entry === null || typeof entry === "string") {
      flush(i);
      push(entry === null ? tokenText(ids[i]) + " " : entry, i, 1);
      continue;
    }
    if (!bytes) [bytes, begin] = [[], i];
    bytes.push(...entry);
    const text = tryDecode(bytes);
    if (text !== null) {
      push(text, begin, i + 1 - begin);
      bytes = null;
    }
  }
  flush(ids.length);
  return runs;
}

const spelled = ids => runsOf(ids).reduce((text, run) => text + run.text, "");

const isNone = x => x === null || x === undefined || Number.isNaN(x);
const plain = (x, digits = 3) => (isNone(x) ? "–" : x.toFixed(digits).replace("-", "−"));
const signed = (x, digits = 3) => {
  const text = plain(Math.abs(x), digits);
  return isNone(x) ? "–" : Number(text) === 0 ? text : (x > 0 ? "+" : "−") + text;
};
const pText = p => (p >= 0.001 ? p.toFixed(3) : p.toExponential(0).replace("-", "−"));
const percent = x => `${(100 * x).toFixed(x === 0 || x === 1 ? 0 : 1)} %`;
const thousands = n => n.toLocaleString("en");
const counted = (n, what) => `${thousands(n)} ${what}${n === 1 ? "" : "s"}`;
const short = x => {
  const digits = Math.abs(x) >= 100 ? x.toFixed(0) : String(Number(x.toPrecision(2)));
  return (x !== 0 && Math.abs(x) < 0.001 ? x.toExponential(0) : digits).replaceAll("-", "−");
};
const capital = text => text[0].toUpperCase() + text.slice(1);

// Where there is no tokenizer, texts are cut at words.
const inUnits = text => text.replaceAll("token", report.unit).replaceAll("Token", capital(report.unit));
