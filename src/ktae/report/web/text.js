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
  let bytes = null,
    begin = 0;
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

// An element with properties and children; texts become text nodes, never markup.
function h(tag, properties = {}, ...children) {
  const element = document.createElement(tag);
  setAll(element, properties);
  element.append(...children.flat(Infinity).filter(child => child !== null && child !== undefined));
  return element;
}

const remark = (...children) => h("p", { class: "quiet" }, ...children);

function svg(tag, attributes = {}, ...children) {
  const element = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  element.append(...children);
  return element;
}

function setAll(element, properties) {
  for (const [name, value] of Object.entries(properties)) {
    if (value === null || value === undefined || value === false) continue;
    if (name === "class") element.className = value;
    else if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (name === "value" || name === "checked") element[name] = value;
    else element.setAttribute(name, value === true ? "" : value);
  }
}

const signed = (x, digits = 3) => {
  if (x === null || x === undefined || Number.isNaN(x)) return "–";
  const text = x.toFixed(digits);
  return Number(text) === 0 ? (0).toFixed(digits) : (x > 0 ? "+" : "−") + text.replace("-", "");
};
const plain = (x, digits = 3) =>
  x === null || x === undefined || Number.isNaN(x) ? "–" : x.toFixed(digits).replace("-", "−");
const pText = p => (p >= 0.001 ? p.toFixed(3) : p.toExponential(0).replace("-", "−"));
const percent = x => `${(100 * x).toFixed(x === 0 || x === 1 ? 0 : 1)} %`;
const thousands = n => n.toLocaleString("en");
const counted = (n, what) => `${thousands(n)} ${what}${n === 1 ? "" : "s"}`;
const short = x => {
  const text =
    Math.abs(x) >= 100 ? x.toFixed(0) : Math.abs(x) >= 0.01 ? String(Number(x.toPrecision(2))) : x.toExponential(0);
  return x === 0 ? "0" : text.replaceAll("-", "−");
};

// Where there is no tokenizer, texts are cut at words.
const inUnits = text =>
  text.replace(/token/g, report.unit).replace(/Token/g, report.unit === "word" ? "Word" : "Token");
const joined = ids =>
  runsOf(ids)
    .map(run => run.text)
    .join("");

// A function of one object, computed once for each.
function memo(f) {
  const known = new WeakMap();
  return x => known.get(x) ?? (known.set(x, f(x)), known.get(x));
}
