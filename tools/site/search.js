// The order of what the search finds: Sphinx puts this beside its own search.

var Scorer = {
  objNameMatch: 11, objPartialMatch: 6, objPrio: {}, objPrioDefault: 0,
  title: 60, partialTitle: 7, term: 5, partialTerm: 2,

  // What says what to do comes before what lists; the pages for teachers come last.
  weights: [[/^cheat_sheet|^messages/, 3], [/^\d|^reference/, 1], [/^workshop/, 0.1],
    [/^/, 0.5]],

  score: ([page, , , , found]) =>
    found * Scorer.weights.find(([pattern]) => pattern.test(page))[1],
};

// excerpts.js has better ones.
DOCUMENTATION_OPTIONS.SHOW_SEARCH_SUMMARY = false;
