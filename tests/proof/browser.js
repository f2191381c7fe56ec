// What the checks ask of a page: of JupyterLab, of one output, of a page of the site.
window.course = (() => {
  const shown = () => window.jupyterapp?.shell?.currentWidget;
  return {
    notebook: () => JSON.stringify(shown().content.model),
    runAll: async () => { await jupyterapp.commands.execute('notebook:run-all-cells'); },
    run: async (number) => {
      shown().content.activeCellIndex = number;
      await jupyterapp.commands.execute('notebook:run-cell');
    },
    write: ([number, source]) => {
      shown().content.model.cells.get(number).sharedModel.setSource(source);
    },
    stop: async () => { await shown().sessionContext.shutdown(); },
    // The toolbar shows an idle kernel before there is one, so this asks for both.
    idle: () => {
      const kernel = shown()?.sessionContext?.session?.kernel;
      return kernel?.connectionStatus === 'connected' && kernel?.status === 'idle';
    },
    // What a reader looks at: pictures, tables and text, but not a control's own reading.
    look: (area) => {
      const copy = area.cloneNode(true);
      copy.querySelectorAll('button, select, .widget-slider').forEach(own => own.remove());
      return copy.innerHTML;
    },
    // Open all folds, and let nothing fade in: a colour on its way is no page's colour.
    open: (theme) => {
      const still = document.createElement('style');
      still.textContent = '* { animation: none !important; transition: none !important; }';
      document.head.append(still);
      if (theme) document.body.dataset.theme = theme;
      document.querySelectorAll('details').forEach(fold => { fold.open = true; });
    },
  };
})();
