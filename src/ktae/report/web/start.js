// Draws the data that are in the file.

(async () => {
  try {
    const fresh = await readFrame();
    Object.assign(report, fresh);
    SIGNALS.advantage = inUnits(SIGNALS.advantage);
    SORTS.beyond[0] = inUnits(SORTS.beyond[0]);
    readState();
    fillControls();
    setUpControls();
    if (state.view === "overview") draw(); // its numbers are here already
    await readRest(report);
    fitted = { key: null };
    draw();
    if (document.getElementById("reload")) restoreSettings();
    root.dataset.ready = "true";
  } catch (error) {
    document.getElementById("main").replaceChildren(h("p", { class: "warn" }, `This page could not be read: ${error.message}. It needs a browser of 2023 or later.`));
    throw error;
  }
})();
