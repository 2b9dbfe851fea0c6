// Where ktae's own grader gives another verdict than the dump.

const DIFFERENCES_OPEN = 20;

// What was graded, in words; null where nothing was.
function gradedLine() {
  const found = report.regraded;
  if (!found) return null;
  const part = found.graded < found.gradable ? ` of ${thousands(found.gradable)}` : "";
  const text = `${thousands(found.graded)}${part} rollouts with a reference answer were graded again here; ${thousands(found.total)} ${found.total === 1 ? "verdict differs" : "verdicts differ"}.`;
  return text + (found.asks_for_more ? " Either the dump's verifier misses most right answers, or the prompt asks for more than the answer." : "") + (found.stopped ? " Grading ended early: too many responses ran out of time." : "");
}

function regradedSection() {
  const found = report.regraded;
  if (!found) return null;
  const rest = [
    found.graded < found.gradable && !found.stopped ? "Above a bound, whole groups are left out, evenly over the dump." : "",
    found.undecided ? `${thousands(found.undecided)} could not be decided (out of time, or the reference does not parse) and are not listed.` : "",
    found.unanswered && !found.reasons.some(({ name }) => name.includes("unanswered")) ? `In ${thousands(found.unanswered)} the grader found no answer; they are not listed.` : "",
  ];
  const more = found.asks_for_more ? h("p", { class: "warn" }, "Most of the incorrect rollouts give the reference answer, as in the game of 24. So no single rollout is flagged for it.") : null;
  const lists = found.reasons.map((reason, i) => reasonList(reason, found.differences.filter((one) => one.reason === i), i === 0));
  return h("section", { class: "pane", id: "regraded", "aria-label": "Verdicts that differ" }, h("h2", {}, "Verdicts that differ"),
    h("p", {}, gradedLine()), h("p", { class: "quiet" }, rest.filter((text) => text).join(" ")), more, lists);
}

function reasonList({ name, times }, listed, open) {
  const list = h("ul", { class: "suspicious" }), more = h("button", { type: "button" });
  let shown = 0;
  const grow = () => {
    list.append(...listed.slice(shown, shown + DIFFERENCES_OPEN).map(differenceItem));
    shown = Math.min(listed.length, shown + DIFFERENCES_OPEN);
    more.textContent = `${thousands(listed.length - shown)} more`;
    more.hidden = shown === listed.length;
  };
  more.addEventListener("click", grow);
  grow();
  const left = times > listed.length ? h("p", { class: "quiet" }, `${thousands(times - listed.length)} more are counted and not listed.`) : null;
  return h("details", { open }, h("summary", {}, h("b", {}, thousands(times)), ` ${onOneLine(name)}`), list, more, left);
}

function differenceItem(one) {
  const name = `${groupName(one.group)}, rollout ${one.number + 1}`;
  const link = one.rollout < 0 ? name : h("a", { href: fragment({ view: "rollouts", group: one.group, rollout: one.number, token: one.token }) }, name);
  const cut = (text) => onOneLine(text.length > 120 ? `…${text.slice(-120)}` : text);
  return h("li", {}, link, h("p", {}, "answer found ", h("code", { dir: "auto" }, cut(one.answer) || "(none)"), ", reference ", h("code", { dir: "auto" }, cut(report.texts.answer[one.group] ?? ""))));
}
