// The list of groups that fit the filter, and what stands above a group's responses.

const ITEM_HEIGHT = 52; // pixels, as in page.css

function sidebar() {
  const options = Object.entries(SORTS).map(
    ([key, [name]]) => el`<option value=${key} selected=${key === state.sort}>${name}</option>`,
  );
  return el`<details class="sidebar" open=${!matchMedia("(max-width: 82rem)").matches}>
    <summary><span role="status">${fittingLine()}</span></summary>
    <label class="quiet">Sorted by
      <select id="sort" @change=${event => go({ sort: event.target.value })}>${options}</select>
    </label>
    ${groupList()}
  </details>`;
}

// Of any number of groups those in sight exist.
function groupList() {
  const { groups } = fitting();
  const items = el`<ul class="group-items" --height="${groups.length * ITEM_HEIGHT}px"></ul>`;
  const box = el`<div class="group-list" tabindex="0" role="region" aria-label="Groups that fit">${items}</div>`;
  const listed = report.findings.filter(({ count }) => count > 0);
  const flagged = new Set(listed.flatMap(finding => finding.groups));
  const fill = () => {
    const from = Math.max(0, Math.floor(box.scrollTop / ITEM_HEIGHT) - 8);
    const rows = Math.ceil((box.clientHeight || 700) / ITEM_HEIGHT) + 16;
    items.replaceChildren(...groups.slice(from, from + rows).map((g, i) => groupItem(g, from + i, flagged.has(g))));
  };
  box.addEventListener("scroll", () => requestAnimationFrame(fill), { passive: true });
  new ResizeObserver(fill).observe(box);
  requestAnimationFrame(() => {
    box.scrollTop = Math.max(0, groups.indexOf(state.group) * ITEM_HEIGHT - 120);
    fill();
  });
  return box;
}

function groupItem(g, place, isFlagged) {
  const { groups, texts } = report;
  const href = fragment({ group: g, rollout: null, token: null });
  return el`<li --top="${place * ITEM_HEIGHT}px">
    <a href=${href} aria-current=${g === state.group && "true"} class=${groups.first[g] < 0 && "away"}>
      <span class="line">
        <b dir="auto">${groupName(g)}</b>
        ${isFlagged && el`<i class="mark-dot" title="something was found here"></i>`}
      </span>
      <span class="line quiet">
        ${meter(groups.n_correct[g], groups.known[g])}
        <span dir="auto">${onOneLine((texts.prompt[g] ?? "").slice(0, 60))}</span>
      </span>
    </a>
  </li>`;
}

// How many are correct, as a bar.
function meter(nCorrect, known) {
  const share = known ? nCorrect / known : 0;
  return el`<span class="score">
    <span class="meter" role="img" aria-label="${nCorrect} of ${known} correct" --share="${share}"></span>
    ${nCorrect}/${known}
  </span>`;
}

function groupHead(g) {
  const { groups } = report;
  const here = fitting().groups;
  const place = here.indexOf(g);
  const position = place < 0 ? "not among those that fit" : `${thousands(place + 1)} of ${thousands(here.length)}`;
  return el`<header class="group-head bar">
    <button type="button" aria-label="Previous group" @click=${() => toNeighbour(-1)}>‹</button>
    <h2 class="group-name" dir="auto" title=${groupName(g)}>${groupName(g)}</h2>
    <button type="button" aria-label="Next group" @click=${() => toNeighbour(1)}>›</button>
    <span class="quiet">${position}</span>
    <span class="facts">
      ${groups.n_correct[g]} of ${groups.known[g]} correct · mean length ${plain(groups.length[g], 0)}
    </span>
    <button class="picture" hidden=${groups.first[g] < 0} @click=${() => savePicture(g)}>Save picture</button>
  </header>`;
}

// The next group that fits and is in the page.
function neighbour(g, by) {
  const here = fitting().groups.filter(other => report.groups.first[other] >= 0);
  const place = here.indexOf(g);
  return here[place < 0 ? 0 : Math.max(0, Math.min(here.length - 1, place + by))] ?? g;
}

const toNeighbour = by => go({ group: neighbour(state.group, by), rollout: null, token: null });

function promptBox(g) {
  const [prompt, answer] = [report.texts.prompt[g], report.texts.answer[g]];
  const text = spellOut((prompt ?? "The dump holds no prompt.").replace(/\r\n?/g, "\n"));
  const reference = answer?.length > 300 ? `${answer.slice(0, 300)}…` : answer;
  return el`<section class="prompt" aria-label="Prompt">
    <span class="who">Prompt</span>
    <div class="prompt-text ${prompt ? "" : "quiet"}" dir="auto" tabindex="0" role="region" aria-label="Prompt's text">
      ${text}
    </div>
    ${answer && el`<p class="answer">Reference answer: <code dir="auto">${onOneLine(reference)}</code></p>`}
  </section>`;
}
