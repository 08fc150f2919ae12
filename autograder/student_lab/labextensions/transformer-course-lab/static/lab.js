// An extension of JupyterLab, as `make lab` starts it. It needs no build: JupyterLab asks for `get` and `init` only.
(() => {
  "use strict";
  const NAME = "transformer-course-lab";
  const NARROW = 700; // pixels; below this, the file browser would leave no room for a notebook

  // JupyterLab goes to the cell in an address only if the notebook is open already; the book's links come sooner.
  function goTo(section, shell) {
    const opened = () => {
      const notebook = shell.currentWidget;
      if (!notebook?.setFragment) return;
      shell.currentChanged.disconnect(opened);
      notebook.revealed.then(() => stayAt(section, notebook));
    };
    shell.currentChanged.connect(opened);
    opened();
  }

  // Cells above the section grow while formulas and outputs are drawn. Once the reader does something, they may.
  function stayAt(section, notebook) {
    const watcher = new ResizeObserver(() => notebook.setFragment(section));
    watcher.observe(notebook.content.node.querySelector(".jp-WindowedPanel-viewport"));
    for (const event of ["wheel", "pointerdown", "touchstart", "keydown", "popstate"]) {
      window.addEventListener(event, () => watcher.disconnect(), { capture: true, once: true });
    }
  }

  function activate(app) {
    const section = window.location.hash;
    app.restored.then(() => {
      if (window.innerWidth < NARROW) app.shell.collapseLeft();
      if (section.startsWith("#cell-id=")) goTo(section, app.shell);
    });
  }

  window._JUPYTERLAB ??= {};
  window._JUPYTERLAB[NAME] = {
    init: () => {},
    get: async () => () => ({ id: `${NAME}:plugin`, autoStart: true, activate }),
  };
})();
