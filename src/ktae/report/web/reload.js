// Loads the page again, whose file is written anew while a run goes on (`ktae report --watch`).
//
// The view, the group and the token are in the address. What else the reader has set is kept beside
// it, and nothing is loaded under a reader who does something.

const LOAD_EVERY = 10_000; // milliseconds
const REST = 4_000; // since the reader last did something

const KEPT = ["palette", "theme", "reload"];
let touched = -REST;

function keepSettings() {
  const kept = { scroll: scrollY, believe: document.getElementById("believe")?.open };
  for (const name of KEPT) {
    const control = document.getElementById(name);
    kept[name] = control.type === "checkbox" ? control.checked : control.value;
  }
  sessionStorage.setItem("ktae", JSON.stringify(kept));
}

function restoreSettings() {
  const kept = JSON.parse(sessionStorage.getItem("ktae") ?? "null");
  if (kept === null) return;
  for (const name of KEPT) {
    const control = document.getElementById(name);
    if (control.type === "checkbox") control.checked = kept[name];
    else control.value = kept[name];
    control.dispatchEvent(new Event("change"));
  }
  const believe = document.getElementById("believe");
  if (believe) believe.open = kept.believe;
  scrollTo(0, kept.scroll);
}

for (const kind of ["pointermove", "pointerdown", "keydown", "wheel"]) {
  addEventListener(
    kind,
    () => {
      touched = performance.now();
    },
    { capture: true, passive: true },
  );
}
setInterval(() => {
  if (!document.getElementById("reload").checked || performance.now() - touched < REST) return;
  keepSettings();
  location.reload();
}, LOAD_EVERY);
