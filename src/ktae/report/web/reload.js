// Loads the page again, whose file is written anew while a run goes on (`ktae report --watch`).
//
// The view, the group and the token are in the address. What else the reader has set is kept beside
// it, and nothing is loaded under a reader who does something.

const LOAD_EVERY = 10_000; // milliseconds
const REST = 4_000; // since the reader last did something
const KEPT = { theme: "value", reload: "checked", believe: "open" };
let touched = -REST;

function keepSettings() {
  const kept = Object.entries(KEPT).map(([id, property]) => [id, document.getElementById(id)?.[property]]);
  sessionStorage.setItem("ktae", JSON.stringify({ ...Object.fromEntries(kept), scroll: scrollY }));
}

function restoreSettings() {
  const kept = JSON.parse(sessionStorage.getItem("ktae") ?? "{}");
  for (const [id, property] of Object.entries(KEPT)) {
    const element = document.getElementById(id);
    if (!element || kept[id] === undefined) continue;
    element[property] = kept[id];
    element.dispatchEvent(new Event("change"));
  }
  scrollTo(0, kept.scroll ?? scrollY);
}

for (const kind of ["pointermove", "pointerdown", "keydown", "wheel"]) {
  addEventListener(kind, () => (touched = performance.now()), { capture: true, passive: true });
}
setInterval(() => {
  if (!document.getElementById("reload").checked || performance.now() - touched < REST) return;
  keepSettings();
  location.reload();
}, LOAD_EVERY);
