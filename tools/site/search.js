// The order of what the search finds.  Sphinx puts this beside its own search, and
// `tools/site/ranking.py` puts the tables `taught` and `counts` before Sphinx's index.

var Scorer = {
  objNameMatch: 11, objPartialMatch: 6, objPrio: {}, objPrioDefault: 0,
  title: 60, partialTitle: 7, term: 5, partialTerm: 2,

  // What tells what to do comes before what lists; the pages of teachers come last.
  weights: [[/^\d|^cheat_sheet|^messages/, 1], [/^glossary|^checkup/, 0.6],
    [/^workshop/, 0.1], [/^/, 0.3]],

  words() {
    const query = new URLSearchParams(location.search).get("q") ?? "";
    const stemmer = new Stemmer();
    return splitQuery(query.toLowerCase()).map((word) => stemmer.stemWord(word));
  },

  // How often the words stand on a page; one that few pages have tells more.
  often(page, words) {
    return words.map((word) => Scorer.counts[word] ?? {}).reduce((sum, seen) => sum
      + Math.log2(1 + (seen[page] ?? 0)) * Math.log(1 + 80 / (1 + Object.keys(seen).length)), 0);
  },

  score(result) {
    const [page, , place, , found] = result;
    const words = Scorer.words();
    let score = found + 10 * Scorer.often(page, words);
    for (const term of new Set([words.join(" "), ...words])) {
      const places = Scorer.taught[term] ?? {};
      if (!(page in places)) continue;
      const worth = term === words.join(" ") ? 100 : 30;
      score += worth - 5 * Object.keys(places).indexOf(page);
      if (!place) result[2] ||= places[page]; // the section, where it is known
    }
    if (page === "cheat_sheet") score += 130; // the answer in one line
    return score * Scorer.weights.find(([pattern]) => pattern.test(page))[1];
  },
};

// A page that was opened as a file may not read the others for an excerpt.
if (location.protocol === "file:") DOCUMENTATION_OPTIONS.SHOW_SEARCH_SUMMARY = false;
// What a fold says is no excerpt.
const wholeText = Search.htmlToText;
Search.htmlToText = (html, place) => wholeText(html.replace(/<summary>.*?<\/summary>/gs, ""), place);
